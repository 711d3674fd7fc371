/**
 * `tollgate/wasm` for `import`: the same module.
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
