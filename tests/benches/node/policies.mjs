/** The measured algorithms and layouts, one per line. */
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from 'tollgate'

/**
 * @typedef {object} Contender
 * @property {string} name
 * @property {(limit: number, window: `${number}${'s' | 'h'}`) => import('tollgate').Policy} make
 *   About `limit` units in each `window`.
 * @property {boolean} isConstant Whether the time of a decision is independent of the size of the
 *   state.
 */

/** @type {Contender[]} */
export const POLICIES = [
  line('fixedWindow', true, (limit, window) => fixedWindow({ limit, window })),
  line('calendarWindow', true, (limit) => calendarWindow({ limit, every: 'day', timeZone: 'Europe/Berlin' })),
  line('slidingWindow, hash of 10', false, (limit, window) =>
    slidingWindow({ limit, window, buckets: 10, layout: 'hash' }),
  ),
  line('slidingWindow, list of 10', true, (limit, window) =>
    slidingWindow({ limit, window, buckets: 10, layout: 'list' }),
  ),
  line('slidingWindow, list of 1000', true, (limit, window) =>
    slidingWindow({ limit, window, buckets: 1_000, layout: 'list' }),
  ),
  line('slidingCounter', true, (limit, window) => slidingCounter({ limit, window })),
  line('slidingLog', false, (limit, window) => slidingLog({ limit, window })),
  line('slidingLog, of two', false, (limit, window) =>
    slidingLog({ limits: { short: { limit: limit - 1, window: '1s' }, long: { limit, window } } }),
  ),
  line('leakyBucket', true, (limit, window) => leakyBucket({ capacity: limit, leak: { units: limit, every: window } })),
  line('tokenBucket', true, (limit, window) =>
    tokenBucket({ capacity: limit, refill: { tokens: limit, every: window } }),
  ),
  line('tokenBucket, interval', true, (limit, window) =>
    tokenBucket({ capacity: limit, refill: { tokens: limit, every: window }, refillMode: 'interval' }),
  ),
  line('gcra', true, (limit, window) => gcra({ limit, period: window })),
]

function line(name, isConstant, make) {
  return { name, isConstant, make }
}
