/**
 * `tollgate/wasm` for `import`: the same module.
 *
 * @packageDocumentation
 */

export * from '../policies/index.mjs'
export type * from './index.js'
export {
  calendarWindow,
  MemoryStore,
  RateLimiter,
  RedisStore,
  TollgateError,
  watchPolicies,
} from './index.js'
