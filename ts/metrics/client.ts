import type { ClientEvents, ClientStatus } from '../client/options.js'
import { checkCount, invalid } from '../input/options.js'
import { ATTRIBUTES, type InstrumentOptions, optionsFor } from './instruments.js'

/** The part of an `OutgoingClient` that is observed. */
export interface ObservedClient {
  /** As `status` of the client. */
  status(): ClientStatus
  /** As `on` of the client. */
  on<Name extends keyof ClientEvents<unknown, unknown>>(
    name: Name,
    listener: (event: ClientEvents<unknown, unknown>[Name]) => void,
  ): () => void
}

/** The bounds of the duration buckets, in seconds. */
const BOUNDARIES = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600]

/**
 * Exports the state of an `OutgoingClient`, with the attribute `tollgate.client` (the `name`) and without keys:
 *
 * - `tollgate.client.attempts`, a counter, with `tollgate.success` and, after an answer, `http.response.status_code`.
 * - `tollgate.client.retries`, `tollgate.client.blocks` and `tollgate.client.given_up`, counters: calls that are sent
 *   again, keys that are blocked because the server asked for it, and calls that ended before their turn.
 * - `tollgate.client.wait.duration` and `tollgate.client.attempt.duration`, histograms in seconds: the time before an
 *   attempt, and the time that it took.
 * - `tollgate.client.queued` and `tollgate.client.running`, observable up-down counters.
 *
 * The export ends when the client is closed and its last call has ended.
 *
 * @returns A function that ends the export earlier.
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * const api = new OutgoingClient({ limiter: new RateLimiter(gcra({ limit: 50, period: '1s' })) })
 * instrumentClient(api, { name: 'payments' })
 */
export function instrumentClient(client: ObservedClient, options: InstrumentOptions): () => void {
  checkCount(arguments.length, 2, 'instrumentClient takes a client and an object of options')
  if (typeof client !== 'object' || client === null || typeof client.on !== 'function') {
    throw invalid('INVALID_OPTION', 'client', 'must be an OutgoingClient', client)
  }
  const { name, meter } = optionsFor('instrumentClient', options)
  const attributes = { [ATTRIBUTES.client]: name }
  const counter = (of: string, description: string, unit: string) => {
    return meter.createCounter(`tollgate.client.${of}`, { description, unit })
  }
  const histogram = (of: string, description: string) => {
    const advice = { explicitBucketBoundaries: BOUNDARIES }
    return meter.createHistogram(`tollgate.client.${of}.duration`, { description, unit: 's', advice })
  }
  const observable = (of: string, description: string) => {
    return meter.createObservableUpDownCounter(`tollgate.client.${of}`, { description, unit: '{call}' })
  }
  const attempts = counter('attempts', 'Attempts that have ended.', '{attempt}')
  const retries = counter('retries', 'Calls that are sent again.', '{retry}')
  const blocks = counter('blocks', 'Keys that are blocked because the server asked for it.', '{block}')
  const givenUp = counter('given_up', 'Calls that ended before their turn.', '{call}')
  const waits = histogram('wait', 'How long calls waited for their turn.')
  const durations = histogram('attempt', 'How long attempts took.')
  const queued = observable('queued', 'Calls that wait for their turn.')
  const running = observable('running', 'Calls that run.')
  let isEnded = false
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    const status = client.status()
    isEnded ||= status.isClosed && status.queued === 0 && status.running === 0
    // Observed once more at the end, because OpenTelemetry's SDK repeats the last value forever.
    result.observe(queued, isEnded ? 0 : status.queued, attributes)
    result.observe(running, isEnded ? 0 : status.running, attributes)
    if (isEnded) {
      unsubscribe()
      meter.removeBatchObservableCallback(observe, [queued, running])
    }
  }
  const listeners = [
    client.on('start', ({ waitedMs }) => waits.record(waitedMs / 1_000, attributes)),
    client.on('end', ({ durationMs, isSuccess, status }) => {
      durations.record(durationMs / 1_000, attributes)
      const answer = status === undefined ? {} : { [ATTRIBUTES.httpStatus]: status }
      attempts.add(1, { ...attributes, [ATTRIBUTES.success]: isSuccess, ...answer })
    }),
    client.on('retry', () => retries.add(1, attributes)),
    client.on('block', () => blocks.add(1, attributes)),
    client.on('giveUp', () => givenUp.add(1, attributes)),
  ]
  const unsubscribe = () => {
    for (const off of listeners) {
      off()
    }
  }
  // With a counter that starts at 1, a query of increases would miss the first one.
  for (const each of [retries, blocks, givenUp]) {
    each.add(0, attributes)
  }
  meter.addBatchObservableCallback(observe, [queued, running])
  return () => {
    isEnded = true
    unsubscribe()
  }
}
