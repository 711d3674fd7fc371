/**
 * Rate limiting for Nest, on Express or Fastify, and of GraphQL, WebSockets and microservices.
 *
 * @module tollgate/nest
 */

export { RateLimit } from './nest/decorator.js'
export { RateLimitGuard } from './nest/guard.js'
export { RateLimitModule } from './nest/module.js'
export {
  type AnyKey,
  type NestAnswers,
  type NestContextOptions,
  type NestFactoryOptions,
  type NestLimitersOptions,
  type NestNamedLimiter,
  type NestNamedLimiters,
  type NestOwnOptions,
  type NestRateLimitAsyncOptions,
  type NestRateLimitOptions,
  type NotPromise,
  RATE_LIMIT_OPTIONS,
} from './nest/options.js'
export { type IpKeyOptions, ipKey } from './shared/ip-key.js'
export type * from './shared/options.js'
