import type { PermitSignal } from '../api/permit.js'
import type { AbortSignalLike } from '../api/wait.js'
import { invalid } from '../input/options.js'

/** The most calls of one map that wait for their turn. */
const MAX_WAITING = 64

/**
 * Makes a call for each value, in order. Only some of the calls wait at a time. After a rejection no further value is
 * taken, and the signal is aborted.
 *
 * @param call - Makes the call with this signal, and calls `onStart` when its function runs.
 */
export async function mapCalls<V, R>(
  values: Iterable<V> | AsyncIterable<V>,
  call: (value: V, index: number, signal: AbortSignalLike, onStart: () => void) => Promise<R>,
): Promise<R[]> {
  if (!isIterable(values)) {
    throw invalid('INVALID_OPTION', 'values', 'must be an iterable', values)
  }
  const results: Promise<R>[] = []
  const controller = new AbortController()
  const waiting = new Set<number>()
  let failure: { readonly error: unknown } | undefined
  let onChange = () => {}
  for await (const value of values) {
    const index = results.length
    const onStart = () => {
      waiting.delete(index)
      onChange()
    }
    waiting.add(index)
    const result = call(value, index, controller.signal as PermitSignal, onStart)
    results.push(result)
    // A call may also end without a start.
    result.then(onStart, (error) => {
      failure ??= { error }
      controller.abort(error)
      onStart()
    })
    while (waiting.size >= MAX_WAITING && failure === undefined) {
      await new Promise<void>((resolve) => {
        onChange = resolve
      })
    }
    if (failure !== undefined) {
      throw (failure as { readonly error: unknown }).error
    }
  }
  return Promise.all(results)
}

function isIterable(value: unknown): boolean {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'string'
  return isObject && (Symbol.iterator in Object(value) || Symbol.asyncIterator in Object(value))
}
