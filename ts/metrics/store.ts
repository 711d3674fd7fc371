import type { RedisStore } from '../backends/redis/redis-store.js'
import { checkCount, invalid } from '../input/options.js'
import { ATTRIBUTES, type InstrumentOptions, optionsFor } from './instruments.js'

/**
 * Exports the state of a `RedisStore`, with the attribute `tollgate.store` (the `name`):
 *
 * - `tollgate.store.up`, a gauge: 1 while the store is up, otherwise 0, also after it was closed.
 * - `tollgate.store.pending`, an observable up-down counter: the calls that wait for an answer.
 * - `tollgate.store.outages`, a counter of the times that the store went down, also between two readings of the gauge.
 *
 * The export ends when the store is closed.
 *
 * @returns A function that ends the export earlier.
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const store = new RedisStore('redis://localhost:6379')
 * instrumentStore(store, { name: 'main' })
 */
export function instrumentStore(store: RedisStore, options: InstrumentOptions): () => void {
  checkCount(arguments.length, 2, 'instrumentStore takes a store and an object of options')
  if (typeof store !== 'object' || store === null || typeof store.status !== 'function') {
    throw invalid('INVALID_OPTION', 'store', 'must be a RedisStore', store)
  }
  const { name, meter } = optionsFor('instrumentStore', options)
  const attributes = { [ATTRIBUTES.store]: name }
  const up = meter.createObservableGauge('tollgate.store.up', {
    description: '1 while the store is up, otherwise 0.',
    unit: '1',
  })
  const pending = meter.createObservableUpDownCounter('tollgate.store.pending', {
    description: 'Calls that wait for the store.',
    unit: '{call}',
  })
  const outages = meter.createCounter('tollgate.store.outages', {
    description: 'How often the store went down.',
    unit: '{outage}',
  })
  let isEnded = false
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    const { state, pending: calls } = store.status()
    isEnded ||= state === 'closed'
    // Observed once more at the end, because OpenTelemetry's SDK repeats the last value forever.
    result.observe(up, state === 'up' && !isEnded ? 1 : 0, attributes)
    result.observe(pending, isEnded ? 0 : calls, attributes)
    if (isEnded) {
      unsubscribe()
      meter.removeBatchObservableCallback(observe, [up, pending])
    }
  }
  const unsubscribe = store.on('down', () => outages.add(1, attributes))
  // With a counter that starts at 1, a query of increases would miss the first outage.
  outages.add(0, attributes)
  meter.addBatchObservableCallback(observe, [up, pending])
  return () => {
    isEnded = true
    unsubscribe()
  }
}
