/**
 * `tollgate` for `import`: the same module. `import` and `require` share one CommonJS build, so a
 * program that uses both has only one `RateLimiter`.
 *
 * @packageDocumentation
 */

export type * from './index.js'
export {
  calendarWindow,
  MemoryStore,
  RateLimiter,
  RedisStore,
  TollgateError,
  watchPolicies,
} from './index.js'
export * from './policies/index.mjs'
