/**
 * Exact, fast, atomic rate limiting.
 *
 * @module tollgate
 */

export { calendarWindow } from './api/calendar-window.js'
export * from './api/index.js'
export { RateLimiter, type RedisRateLimiterOptions } from './api/rate-limiter.js'
export { MemoryStore } from './backends/memory/memory-store.js'
export type { StoreStatus } from './backends/redis/health.js'
export type { RedisStoreOptions } from './backends/redis/options.js'
export { RedisStore } from './backends/redis/redis-store.js'
