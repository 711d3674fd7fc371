/**
 * The engine as WebAssembly, for platforms without the addon: Cloudflare Workers, Deno Deploy and
 * browsers. It has the same limiters, policies and decisions as `tollgate`. The counts are in the
 * memory of the engine, or in Redis through a client that you have ({@link RedisStore}).
 *
 * No setup is needed: the engine starts when the module is loaded.
 *
 * @example
 * import { gcra, RateLimiter } from 'tollgate/wasm'
 *
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }))
 * const { allowed } = await limiter.take('user:42')
 *
 * @module tollgate/wasm
 */
export * from '../api/index.js'
export { calendarWindow } from './calendar-window.js'
export { MemoryStore } from './memory-store.js'
export { RateLimiter, type RedisRateLimiterOptions } from './rate-limiter.js'
export type {
  GlideClient,
  IoredisClient,
  NodeRedisClient,
  RedisClient,
  RunCommand,
  ScriptClient,
} from './redis/clients.js'
export { RedisStore, type RedisStoreFromOptions } from './redis/redis-store.js'
