import { inRootContext } from './root-context.js'

/** A callback of a timer. */
type Run = (value?: never) => void

/** Not all platforms have `setImmediate`. */
const {
  setImmediate = (run: Run): unknown => globalThis.setTimeout(run, 0),
}: { setImmediate?: (run: Run) => unknown } = globalThis

type SetTimer<T> = (run: Run, millis: number) => T

/** Makes timers that begin in the root context. */
const outsideCalls =
  <T>(setTimer: SetTimer<T>): SetTimer<T> =>
  (run, millis) =>
    inRootContext(() => setTimer(run, millis))

/**
 * The platform's timers as they were when the package was loaded. A test that fakes timers
 * (`jest.useFakeTimers()`) must not stop calls over Redis or their deadlines.
 *
 * No timer belongs to the AsyncLocalStorage context of the call that sets it.
 */
export const timers = {
  setTimeout: outsideCalls(globalThis.setTimeout.bind(globalThis) as SetTimer<NodeJS.Timeout>),
  clearTimeout: globalThis.clearTimeout.bind(globalThis),
  setInterval: outsideCalls(globalThis.setInterval.bind(globalThis) as SetTimer<NodeJS.Timeout>),
  clearInterval: globalThis.clearInterval.bind(globalThis),
  queueMicrotask: globalThis.queueMicrotask.bind(globalThis),
  /** Runs a function after this tick of the event loop; on platforms without it, by a timer. */
  setImmediate: (run: Run): unknown => inRootContext(() => setImmediate(run)),
  /** Milliseconds of a monotonic clock. */
  now: performance.now.bind(performance),
}

/** The platform's timers as they are at the time of a call, so that a test can fake them. */
export const fakeableTimers = {
  setTimeout: outsideCalls<NodeJS.Timeout>((run, millis) => globalThis.setTimeout(run, millis)),
  clearTimeout: (timer: NodeJS.Timeout | undefined) => globalThis.clearTimeout(timer),
  setInterval: outsideCalls<NodeJS.Timeout>((run, millis) => globalThis.setInterval(run, millis)),
  clearInterval: (timer: NodeJS.Timeout | undefined) => globalThis.clearInterval(timer),
}
