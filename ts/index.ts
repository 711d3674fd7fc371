/**
 * Exact, fast, atomic rate limiting.
 *
 * @module tollgate
 */

export { calendarWindow } from './api/calendar-window.js'
export * from './api/index.js'
export {
  type AnyRateLimiterOptions,
  RateLimiter,
  type RateLimiterConstructor,
  type RedisRateLimiterOptions,
  type RedisUrl,
} from './api/rate-limiter.js'
export type { LeasesHeld } from './backends/limiter-backend.js'
export { MemoryStore } from './backends/memory/memory-store.js'
export type {
  ClusterNodeWarning,
  EvictingWarning,
  StoreDown,
  StoreEvents,
  StoreStatus,
  StoreUp,
  StoreWarning,
  VulnerableServerWarning,
} from './backends/redis/health.js'
export type {
  RedisClusterOptions,
  RedisCredentials,
  RedisNode,
  RedisSentinelOptions,
  RedisStoreOptions,
  RedisTlsOptions,
} from './backends/redis/options.js'
export { RedisStore } from './backends/redis/redis-store.js'
