// A library with `declaration`. It exports limiters and policies without written types.
import {
  calendarWindow,
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  MemoryStore,
  RateLimiter,
  RedisStore,
  slidingCounter,
  slidingLog,
  slidingWindow,
  TollgateError,
  tiers,
  tokenBucket,
  watchPolicies,
} from 'tollgate'
import { OutgoingClient } from 'tollgate/client'
import { TestClock } from 'tollgate/testing'

export const policies = {
  gcra: gcra({ limit: 1, period: '1s' }),
  perIp: gcra({ limit: 1, period: '1s', per: 'ip' }),
  calendarWindow: calendarWindow({ limit: 1, every: 'day' }),
  concurrency: concurrency({ limit: 1 }),
  fixedWindow: fixedWindow({ limit: 1, window: '1s' }),
  leakyBucket: leakyBucket({ capacity: 1, leak: { units: 1, every: '1s' } }),
  slidingCounter: slidingCounter({ limit: 1, window: '1s' }),
  slidingLog: slidingLog({ limit: 1, window: '1s' }),
  slidingWindow: slidingWindow({ limit: 1, window: '1s' }),
  tokenBucket: tokenBucket({ capacity: 1, refill: { tokens: 1, every: '1s' } }),
  interval: tokenBucket({ capacity: 1, refill: { tokens: 1, every: '1s' }, refillMode: 'interval' }),
}
export const plans = tiers({ free: gcra({ limit: 1, period: '1s' }), pro: gcra({ limit: 9, period: '1s' }) })
export const named = { ip: policies.perIp, all: fixedWindow({ limit: 9, window: '1s', per: 'global' }) }

export const store = new RedisStore({ url: 'redis://localhost' })
export const memory = new MemoryStore()
export const clock = new TestClock()
export const limiter = new RateLimiter(policies.gcra)
export const shared = new RateLimiter(policies.gcra, { store, prefix: 'a' })
export const byName = new RateLimiter(named)
export const byTier = new RateLimiter(plans)
export const windows = new RateLimiter(policies.fixedWindow, { store: memory })
export const permits = new RateLimiter(policies.concurrency)
export const client = new OutgoingClient({ limiter, key: 'a' })
export const watch = watchPolicies(limiter, () => policies.gcra)
export const limits = limiter.policies
export const status = store.status

export class Service {
  readonly limiter = new RateLimiter(named)
  #tries = new RateLimiter(policies.slidingLog)
  tries = (key: string) => this.#tries.take(key)
}

export const take = (key: string) => limiter.take(key)
export const takeSync = (key: string) => limiter.takeSync(key)
export const takeMany = (keys: string[]) => limiter.takeMany(keys)
export const takeUpTo = (key: string) => limiter.takeUpTo(key, 5)
export const takeByName = (ip: string) => byName.take({ ip })
export const takeByTier = (key: string) => byTier.take(key, { tier: 'pro' })
export const wait = (key: string) => limiter.wait(key)
export const tryWait = (key: string) => limiter.wait(key, { onTooLong: 'resolve' })
export const acquire = (key: string) => permits.acquire(key)
export const reserve = (key: string) => limiter.reserve(key, 5)
export const settle = (id: string) => limiter.settle(id)
export const block = (key: string) => limiter.block(key, '1m')

export async function admitted(key: string) {
  const decision = await limiter.take(key)
  if (decision.allowed) {
    return decision
  }
  throw new Error(decision.status)
}
export async function blocked(key: string) {
  const decision = await limiter.take(key)
  return decision.status === 'blocked' ? decision : undefined
}
export async function held(key: string) {
  const permit = await permits.acquire(key)
  return permit.allowed ? permit : undefined
}
export async function reserved(key: string) {
  const reservation = await limiter.reserve(key, 5)
  return reservation.allowed ? reservation : undefined
}
export const ban = async (key: string) => (await blocked(key))?.ban
export const extended = async (key: string) => (await reserved(key))?.extend(5)
export const renewed = async (key: string) => (await reserved(key))?.renew()
export const signal = async (key: string) => (await held(key))?.signal
export const codeOf = (error: unknown) => (TollgateError.is(error) ? error.code : undefined)
