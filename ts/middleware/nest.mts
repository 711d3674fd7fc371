/** `tollgate/nest` for `import`: the same module. */
export type * from './nest.js'
export { ipKey, RATE_LIMIT_OPTIONS, RateLimit, RateLimitGuard, RateLimitModule } from './nest.js'
