// A Worker whose limiters and client belong to the module. Each request of it must do its own I/O.
import { Redis } from '@upstash/redis/cloudflare'
import { OutgoingClient } from 'tollgate/client'
import { concurrency, gcra, RateLimiter, RedisStore } from 'tollgate/wasm'

let shared

function made({ UPSTASH_URL: url }) {
  const store = RedisStore.from(new Redis({ url, token: 'secret', retry: { retries: 0 } }), { commandTimeout: '30s' })
  const rate = new RateLimiter(gcra({ limit: 100, period: '1h' }), { store, prefix: 'rate' })
  const small = RedisStore.from(new Redis({ url, token: 'secret', retry: { retries: 0 } }), { maxPending: 1 })
  const one = new RateLimiter(gcra({ limit: 100, period: '1h' }), { store: small, prefix: 'one' })
  const pace = new RateLimiter(gcra({ limit: 2, period: '1s', burst: 1 }), { store, prefix: 'pace' })
  const permits = new RateLimiter(concurrency({ limit: 2, ttl: '3s' }), { store, prefix: 'permits' })
  const single = new RateLimiter(concurrency({ limit: 1, ttl: '1m' }), { store, prefix: 'single' })
  const client = new OutgoingClient({ limiter: single, key: 'all' })
  return { rate, one, pace, permits, single, client }
}

const routes = {
  async '/take'({ rate }) {
    return (await rate.take('all')).remaining
  },
  /** Over a store that has one call at a time. */
  async '/one'({ one }) {
    return (await one.take('all')).allowed
  },
  async '/wait'({ pace }) {
    return (await pace.wait('all')).allowed
  },
  '/abandoned-wait': ({ pace }, until) => abandoned(until, (signal) => pace.wait('all', { signal })),
  /** Holds a permit until the URL `until` has answered. */
  async '/permit'({ permits }, until) {
    const permit = await permits.acquire('all')
    await fetch(until)
    return { isAborted: permit.signal.aborted, wasHeld: await permit.release() }
  },
  async '/acquire'({ single }, until) {
    const permit = await single.acquire('all', { maxWait: '20s' })
    await fetch(until)
    return { wasHeld: await permit.release() }
  },
  '/abandoned-acquire': ({ single }, until) =>
    abandoned(until, (signal) => single.acquire('all', { maxWait: '20s', signal })),
  async '/client'({ client }, until) {
    return client.schedule(async ({ signal }) => (await fetch(until, { signal })).text())
  },
}

/** The error code of a call that waits until the URL `until` has answered. */
async function abandoned(until, call) {
  const controller = new AbortController()
  const code = call(controller.signal).catch((error) => error.code)
  await fetch(until)
  controller.abort()
  return code
}

export default {
  async fetch(request, env) {
    shared ??= made(env)
    const { pathname, searchParams } = new URL(request.url)
    try {
      return Response.json(await routes[pathname](shared, searchParams.get('until')))
    } catch (error) {
      return new Response(String(error?.stack ?? error), { status: 500 })
    }
  },
}
