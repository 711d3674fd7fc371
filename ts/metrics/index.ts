/**
 * OpenTelemetry metrics of limiters, of their stores, and of clients: `tollgate/metrics`.
 *
 * It needs `@opentelemetry/api`. Programs that do not import it have no overhead.
 *
 * @module tollgate/metrics
 */
export { instrumentClient, type ObservedClient } from './client.js'
export type { InstrumentOptions } from './instruments.js'
export { type AnyRateLimiter, instrument } from './limiter.js'
export { instrumentStore } from './store.js'
