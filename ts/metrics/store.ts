import type { RedisStore } from '../backends/redis/redis-store.js'
import { checkCount, invalid } from '../input/options.js'
import { ATTRIBUTES, type InstrumentOptions, optionsFor } from './instruments.js'

/**
 * Shows how a `RedisStore` is, by `tollgate.store` (the `name`):
 *
 * - `tollgate.store.up`, a gauge: 1 while it is up, otherwise 0.
 * - `tollgate.store.pending`, an up-down counter that is observed: how many calls wait for an answer.
 * - `tollgate.store.outages`, a counter: how often it went down, also between two looks at the gauge.
 *
 * It ends with the store: a store that has been closed is shown as 0 from then on.
 *
 * @returns A function that ends it before.
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
  let isOver = false
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    const { state, pending: calls } = store.status()
    isOver ||= state === 'closed'
    // Once more at the end: OpenTelemetry's SDK shows what it last heard for ever.
    result.observe(up, state === 'up' && !isOver ? 1 : 0, attributes)
    result.observe(pending, isOver ? 0 : calls, attributes)
    if (isOver) {
      off()
      meter.removeBatchObservableCallback(observe, [up, pending])
    }
  }
  const off = store.on('down', () => outages.add(1, attributes))
  // A counter that begins at 1 hides its first step from those who look at differences.
  outages.add(0, attributes)
  meter.addBatchObservableCallback(observe, [up, pending])
  return () => {
    isOver = true
    off()
  }
}
