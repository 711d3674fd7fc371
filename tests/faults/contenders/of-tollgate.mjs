/** What the contenders with tollgate share. */
import { concurrency, RateLimiter, RedisStore } from 'tollgate'

/**
 * @param {import('./all.mjs').Options} options
 * @param {(rate: { limit: number, windowMs: number }) => import('tollgate').Policy} policyOf
 * @param {object} [settings] Of the limiter.
 * @returns {import('./all.mjs').Opened}
 */
export async function opened({ port, limit, windowMs, hold }, policyOf, settings = {}) {
  const store = new RedisStore(`redis://127.0.0.1:${port}`)
  const policy = hold ? concurrency({ limit: hold.limit, ttl: hold.ttlMs }) : policyOf({ limit, windowMs })
  const limiter = new RateLimiter(policy, { store, prefix: 'faults', ...settings })
  return {
    take: (key, cost) => limiter.take(key, cost),
    hold: async (key) => ({ allowed: (await limiter.acquire(key)).allowed }),
  }
}
