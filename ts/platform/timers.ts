/** Not all platforms have `setImmediate`. */
const { setImmediate }: { readonly setImmediate?: typeof globalThis.setImmediate } = globalThis

/**
 * The platform's timers as they were when the package was loaded. A test that fakes timers
 * (`jest.useFakeTimers()`) must not stop calls over Redis or their deadlines.
 */
export const timers = {
  setTimeout: globalThis.setTimeout.bind(globalThis),
  clearTimeout: globalThis.clearTimeout.bind(globalThis),
  setInterval: globalThis.setInterval.bind(globalThis),
  clearInterval: globalThis.clearInterval.bind(globalThis),
  queueMicrotask: globalThis.queueMicrotask.bind(globalThis),
  /** Runs a function after this tick of the event loop; on platforms without it, by a timer. */
  setImmediate: (setImmediate ??
    ((run: () => void) => globalThis.setTimeout(run, 0))) as typeof globalThis.setImmediate,
  /** Milliseconds of a monotonic clock. */
  now: performance.now.bind(performance),
}
