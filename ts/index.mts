/**
 * `tollgate` for `import`: the same module. `import` and `require` share one CommonJS build, so a
 * program that uses both has only one `RateLimiter`.
 *
 * @packageDocumentation
 */

export type * from './index.js'
export {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  MemoryStore,
  RateLimiter,
  RedisStore,
  slidingCounter,
  slidingLog,
  slidingLogs,
  slidingWindow,
  TollgateError,
  tokenBucket,
  windowMsOf,
} from './index.js'
