/**
 * @upstash/ratelimit as in https://upstash.com/docs/redis/sdks/ratelimit-ts/gettingstarted, without analytics.
 * harness/upstash-rest.mjs stands in for Upstash's service, in front of a real Redis.
 */
import { Ratelimit } from '@upstash/ratelimit'
import { Redis } from '@upstash/redis'

/** @type {import('./all.mjs').Contender} */
export const contender = {
  title: '@upstash/ratelimit, `slidingWindow`',
  packages: ['@upstash/ratelimit', '@upstash/redis'],
  unsupported: { hold: 'it limits rates, not what is held at once' },
  isService: true,
  async open({ port, limit, windowMs }) {
    const redis = new Redis({ url: `http://127.0.0.1:${port}`, token: 'secret' })
    const ratelimit = new Ratelimit({ redis, limiter: Ratelimit.slidingWindow(limit, `${windowMs} ms`) })
    return {
      async take(key, cost) {
        const { success } = await ratelimit.limit(key, { rate: cost })
        return { allowed: success }
      },
    }
  },
}
