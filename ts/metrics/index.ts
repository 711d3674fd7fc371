/**
 * OpenTelemetry metrics of limiters and of their stores: `tollgate/metrics`.
 *
 * It needs `@opentelemetry/api`. Programs that do not import it have no overhead.
 *
 * @module tollgate/metrics
 */
export type { InstrumentOptions } from './instruments.js'
export { type AnyRateLimiter, instrument } from './limiter.js'
export { instrumentStore } from './store.js'
