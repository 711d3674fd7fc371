/** The compared limiters over Redis, each with the settings that its users would choose. */
import { Redis } from 'ioredis'
import { RateLimiterRedis, RateLimiterUnion } from 'rate-limiter-flexible'
import { createClient } from 'redis'
import { calendarWindow, fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'

/**
 * Units an hour: more than a round takes from any key, and few enough for tollgate's usual form of
 * a window in Redis (see lua/fixed_window/general.lua).
 */
export const LIMIT = 8_000

/**
 * Calls of many units, such as tokens. With these, tollgate's windows soon leave the usual form.
 */
export const THOUSAND = { limit: 1_000_000, units: 1_000 }

const PERIOD = '1h'
const PERIOD_SECONDS = 3_600

export const GCRA = 'tollgate gcra'
export const FIXED_WINDOW = 'tollgate fixedWindow'
/** The others are compared with this contender. */
export const PEER = 'rate-limiter-flexible + ioredis'

/**
 * Opens contenders by name. Each returns one call per limiter, and a function that checks whether a
 * result is allowed. A call is a plain function, so that no contender pays for an extra promise.
 *
 * @typedef {object} Opened
 * @property {((key: string) => Promise<unknown>)[]} calls
 * @property {(result: never) => boolean} isAllowed
 * @property {() => Promise<unknown>} close
 *
 * @typedef {Record<string, (url: string, limiters: number) => Promise<Opened>>} Contenders
 */

/** @type {Contenders} */
export const CONTENDERS = contendersOf({ limit: LIMIT, units: 1 })

/** @type {Contenders} */
export const OF_THOUSANDS = contendersOf(THOUSAND)

/**
 * @param {{ limit: number, units: number }} numbers Units an hour, and per call.
 * @returns {Contenders}
 */
function contendersOf({ limit, units }) {
  return {
    [GCRA]: (url, limiters) => tollgate(gcra({ limit, period: PERIOD }), 'gcra', url, limiters, units),

    [FIXED_WINDOW]: (url, limiters) => tollgate(fixedWindow({ limit, window: PERIOD }), 'fixed', url, limiters, units),

    [PEER]: async (url, limiters) => flexible('plain', ioredis(url), limiters, limit, units),

    [`${PEER}, auto-pipelining`]: async (url, limiters) =>
      flexible('auto', ioredis(url, { enableAutoPipelining: true }), limiters, limit, units),

    async 'rate-limiter-flexible + node-redis'(url, limiters) {
      const client = createClient({ url })
      await client.connect()
      const opened = { storeClient: client, useRedisPackage: true, close: () => client.quit() }
      return flexible('node', opened, limiters, limit, units)
    },
  }
}

export const THREE = 'tollgate, three policies'
/** {@link THREE} is compared with this contender. */
export const UNION = 'RateLimiterUnion of three + ioredis'

/** Several limits for each call. */
export const OF_THREE = {
  [GCRA]: CONTENDERS[GCRA],

  [THREE]: (url, limiters) => {
    const policies = {
      burst: gcra({ limit: LIMIT, period: PERIOD }),
      hourly: fixedWindow({ limit: LIMIT, window: PERIOD }),
      daily: calendarWindow({ limit: LIMIT, every: 'day', timeZone: 'Asia/Shanghai' }),
    }
    return tollgate(policies, 'three', url, limiters)
  },

  [UNION]: async (url) => union([PERIOD_SECONDS, PERIOD_SECONDS, 24 * PERIOD_SECONDS], 'union', url),
}

/** A `RateLimiterUnion` with a limiter for each duration, in seconds. */
export function union(durations, prefix, url) {
  const { storeClient, close } = ioredis(url)
  const limiters = durations.map((duration, number) => {
    return new RateLimiterRedis({ storeClient, points: LIMIT, duration, keyPrefix: `${prefix}-${number}` })
  })
  const all = new RateLimiterUnion(...limiters)
  return {
    calls: [(key) => all.consume(key)],
    isAllowed: (results) => Object.values(results).every(({ remainingPoints }) => remainingPoints >= 0),
    close,
  }
}

/**
 * Limiters of tollgate on one store.
 *
 * @param {import('tollgate').Policy | import('tollgate').Policies} policy
 * @param {string} prefix
 * @param {ConstructorParameters<typeof RedisStore>[0]} where
 * @param {number} count
 * @param {number} units Of each call.
 * @returns {Promise<Opened>}
 */
export async function tollgate(policy, prefix, where, count, units = 1) {
  const store = new RedisStore(where)
  const limiters = numbered(count, (number) => new RateLimiter(policy, { store, prefix: `${prefix}-${number}` }))
  await Promise.all(limiters.map((limiter) => limiter.ready()))
  return {
    calls: limiters.map((limiter) => (units === 1 ? (key) => limiter.take(key) : (key) => limiter.take(key, units))),
    isAllowed: (decision) => decision.allowed,
    async close() {
      await Promise.all(limiters.map((limiter) => limiter.close()))
      await store.close()
    },
  }
}

/**
 * Limiters of rate-limiter-flexible on one client.
 *
 * @param {string} prefix
 * @param {{ storeClient: unknown, close: () => Promise<unknown> }} client
 * @param {number} count
 * @param {number} points Has no effect on the form of the keys.
 * @param {number} units Of each call.
 * @returns {Opened}
 */
export function flexible(prefix, { close, ...client }, count, points = LIMIT, units = 1) {
  const settings = { ...client, points, duration: PERIOD_SECONDS }
  const limiters = numbered(
    count,
    (number) => new RateLimiterRedis({ ...settings, keyPrefix: `flexible-${prefix}-${number}` }),
  )
  return {
    calls: limiters.map((limiter) => (key) => limiter.consume(key, units)),
    // A refusal would be a rejection.
    isAllowed: (result) => result.remainingPoints >= 0,
    close,
  }
}

export function ioredis(url, options = {}) {
  const client = new Redis(url, options)
  return { storeClient: client, close: () => client.quit() }
}

function numbered(count, make) {
  return Array.from({ length: count }, (_, number) => make(number))
}
