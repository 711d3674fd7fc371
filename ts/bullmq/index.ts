/**
 * Rates and concurrency by group for the workers of BullMQ (`bullmq` 5 and 6): a wrapper around a processor.
 *
 * A job whose group has no room is moved to the delayed set of its queue, without counting an attempt.
 *
 * @module tollgate/bullmq
 */
export type { JobLimiter, JobRateLimitOptions, LimitedJob } from './options.js'
export { rateLimited } from './rate-limited.js'
