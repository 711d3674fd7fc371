/**
 * The rate limit headers of a decision, for handlers that call a limiter themselves. Needs neither Node.js nor the
 * addon.
 *
 * @module tollgate/headers
 */

export type { HeaderForm } from '../middleware/shared/header-forms.js'
export {
  type DescribedLimiter,
  type RateLimitHeadersOptions,
  rateLimitHeaders,
} from '../middleware/shared/rate-limit-headers.js'
