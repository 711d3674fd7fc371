/**
 * Metrics of limiters and of their stores, through OpenTelemetry's API: `tollgate/metrics`.
 *
 * It needs `@opentelemetry/api`. Who does not import it pays nothing for it.
 *
 * @module tollgate/metrics
 */
export type { InstrumentOptions } from './instruments.js'
export { type AnyRateLimiter, instrument } from './limiter.js'
export { instrumentStore } from './store.js'
