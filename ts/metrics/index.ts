/**
 * OpenTelemetry metrics of limiters, of their stores, and of clients: `tollgate/metrics`.
 *
 * @module tollgate/metrics
 */
export { instrumentClient, type ObservedClient } from './client.js'
export type { InstrumentOptions } from './instruments.js'
export { instrument } from './limiter.js'
export { instrumentStore } from './store.js'
