/**
 * The same package for `import`: one CommonJS build is behind both, so that a program which uses
 * both has one `RateLimiter`.
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
