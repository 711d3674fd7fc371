/**
 * The same package for `import`: one CommonJS build is behind both, so that a program which uses
 * both has one `RateLimiter`.
 *
 * @packageDocumentation
 */

export type * from './index.js'
export { fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore, TollgateError, tokenBucket } from './index.js'
