import type { TollgateError } from '../api/error.js'
import type { PermitSignal } from '../api/permit.js'
import type { AbortSignalLike } from '../api/wait.js'
import { invalid } from '../input/options.js'
import { closedMapError } from './errors.js'

/** The most calls of one map that wait for their turn. */
const MAX_WAITING = 64

/** Makes the call of a value with a signal, and calls `onStart` when its function runs. */
export type MappedCall<V, R> = (value: V, index: number, signal: AbortSignalLike, onStart: () => void) => Promise<R>

/**
 * Makes a call for each value, in order. Only some of the calls wait at a time. After the first error no further value
 * is taken, and the signal is aborted.
 *
 * @param stops - Has a function while values are taken. It makes the map take no further value, and reject with
 * `CLOSED` once its calls have ended.
 */
export async function mapCalls<V, R>(
  values: Iterable<V> | AsyncIterable<V>,
  call: MappedCall<V, R>,
  stops: Set<() => void>,
): Promise<R[]> {
  if (!isIterable(values)) {
    throw invalid('INVALID_OPTION', 'values', 'must be an iterable', values)
  }
  const results: Promise<R>[] = []
  const controller = new AbortController()
  const waiting = new Set<number>()
  /** Why no further value is taken. */
  let ending: { readonly error: unknown } | undefined
  let onEnding: (error: unknown) => void = () => {}
  let onStarted = () => {}
  const endBy = (error: unknown) => {
    ending ??= { error }
    onEnding(error)
  }
  /** Waits, but no longer than values are taken. */
  const unlessEnded = <T>(wait: (resolve: (value: T) => void, reject: (error: unknown) => void) => void) => {
    return new Promise<T>((resolve, reject) => {
      onEnding = reject
      return ending === undefined ? wait(resolve, reject) : reject(ending.error)
    })
  }
  const makeCall = (value: V) => {
    const index = results.length
    const onStart = () => {
      waiting.delete(index)
      onStarted()
    }
    waiting.add(index)
    const result = call(value, index, controller.signal as PermitSignal, onStart)
    results.push(result)
    // A call may also end without a start.
    result.then(onStart, (error) => {
      controller.abort(error)
      endBy(error)
    })
  }
  let closed: TollgateError | undefined
  const stop = () => {
    closed = closedMapError(results.length)
    endBy(closed)
  }
  const iterator = iteratorOf(values)
  stops.add(stop)
  try {
    for (;;) {
      const next = await unlessEnded<IteratorResult<V>>((resolve, reject) => {
        Promise.resolve(iterator.next()).then(resolve, reject)
      })
      if (next.done === true) {
        return await Promise.all(results)
      }
      makeCall(next.value)
      if (waiting.size >= MAX_WAITING) {
        await unlessEnded<void>((resolve) => {
          onStarted = resolve
        })
      }
    }
  } catch (error) {
    if (ending !== undefined) {
      // A source that waits for its next value may end much later.
      Promise.resolve()
        .then(() => iterator.return?.())
        .catch(() => {})
    }
    if (error === closed) {
      await Promise.all(results)
    }
    controller.abort(error)
    throw error
  } finally {
    stops.delete(stop)
  }
}

/** A source that is not asynchronous may have promises as its values. */
function iteratorOf<V>(values: Iterable<V> | AsyncIterable<V>): AsyncIterator<V> {
  return Symbol.asyncIterator in Object(values)
    ? (values as AsyncIterable<V>)[Symbol.asyncIterator]()
    : (async function* () {
        yield* values
      })()
}

function isIterable(value: unknown): boolean {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'string'
  return isObject && (Symbol.iterator in Object(value) || Symbol.asyncIterator in Object(value))
}
