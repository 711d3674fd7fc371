/** What Node.js has and not every platform. */
const { setImmediate }: { readonly setImmediate?: typeof globalThis.setImmediate } = globalThis

/**
 * The platform's timers as they were when the package was loaded: a test that fakes timers (`jest.useFakeTimers()`) must
 * stop neither a call over Redis nor its deadline.
 */
export const timers = {
  setTimeout: globalThis.setTimeout.bind(globalThis),
  clearTimeout: globalThis.clearTimeout.bind(globalThis),
  queueMicrotask: globalThis.queueMicrotask.bind(globalThis),
  /** At the end of this turn of the event loop; where no such function is, as soon as a timer can. */
  setImmediate: (setImmediate ??
    ((run: () => void) => globalThis.setTimeout(run, 0))) as typeof globalThis.setImmediate,
  /** Milliseconds of a clock that never goes back. */
  now: performance.now.bind(performance),
}
