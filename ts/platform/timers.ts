/** Not every platform has it. */
const { setImmediate }: { readonly setImmediate?: typeof globalThis.setImmediate } = globalThis

/**
 * The platform's timers as they were when the package was loaded: a test that fakes timers (`jest.useFakeTimers()`) must
 * stop neither a call over Redis nor its deadline.
 */
export const timers = {
  setTimeout: globalThis.setTimeout.bind(globalThis),
  clearTimeout: globalThis.clearTimeout.bind(globalThis),
  queueMicrotask: globalThis.queueMicrotask.bind(globalThis),
  /** Runs a function after this turn of the event loop; on platforms without it, by a timer. */
  setImmediate: (setImmediate ??
    ((run: () => void) => globalThis.setTimeout(run, 0))) as typeof globalThis.setImmediate,
  /** Milliseconds of a clock that never goes back. */
  now: performance.now.bind(performance),
}
