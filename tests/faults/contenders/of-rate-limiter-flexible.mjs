/**
 * What the contenders with rate-limiter-flexible share:
 * https://github.com/animir/node-rate-limiter-flexible/wiki/Redis (a client without an offline queue, an
 * `error` handler, `useRedisPackage` for node-redis) and
 * https://github.com/animir/node-rate-limiter-flexible/wiki/Insurance-Strategy (a memory limiter with the
 * points of one process).
 */
import { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import { createClient } from 'redis'

const NO_HOLD = 'it limits rates, not what is held at once'
const WHOLE_SECONDS = 'durations over Redis are whole seconds'

export const unsupported = { subSecond: WHOLE_SECONDS, hold: NO_HOLD }

export function ioredis({ port }) {
  const client = new Redis({ host: '127.0.0.1', port, enableOfflineQueue: false })
  client.on('error', () => {})
  return new Promise((resolve) => client.once('ready', () => resolve({ storeClient: client })))
}

export async function nodeRedis({ port }) {
  const client = createClient({ socket: { host: '127.0.0.1', port }, disableOfflineQueue: true })
  client.on('error', () => {})
  await client.connect()
  return { storeClient: client, useRedisPackage: true }
}

/** @param {import('./all.mjs').Options} options */
export function opened(client, { limit, windowMs, processes }, isInsured) {
  const duration = windowMs / 1_000
  const insuranceLimiter = new RateLimiterMemory({ points: limit / processes, duration })
  const limiter = new RateLimiterRedis({ ...client, points: limit, duration, ...(isInsured && { insuranceLimiter }) })
  return {
    async take(key, cost) {
      try {
        await limiter.consume(key, cost)
        return { allowed: true }
      } catch (refusal) {
        if (refusal instanceof Error) throw refusal
        return { allowed: false }
      }
    },
  }
}
