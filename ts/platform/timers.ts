import { inRootContext } from './root-context.js'

type Run = (value?: never) => void

type SetTimer<T> = (run: Run, millis: number) => T

/** The functions of `node:timers`, and of the global object of any platform. Not all have `setImmediate`. */
interface PlatformTimers {
  setTimeout: SetTimer<NodeJS.Timeout>
  clearTimeout(timer: NodeJS.Timeout | undefined): void
  setInterval: SetTimer<NodeJS.Timeout>
  clearInterval(timer: NodeJS.Timeout | undefined): void
  setImmediate?: (run: Run) => unknown
}

/** A function that `@sinonjs/fake-timers` (Jest, Vitest) has put in place of a timer function. */
interface FakedFunction {
  /** It keeps the function `setTimeout` as `_setTimeout`. */
  readonly clock?: { readonly [name: string]: unknown }
}

// The bundles for the web replace `globalThis.process`: there only the global functions belong to a request.
const builtin = (globalThis as { readonly process?: { getBuiltinModule?: (name: string) => unknown } }).process
  ?.getBuiltinModule

const { performance: clock } = (builtin?.('node:perf_hooks') ?? globalThis) as { readonly performance: Performance }

const platform = realTimers((builtin?.('node:timers') ?? globalThis) as PlatformTimers)

/** The timer functions of a module, also if a test has faked them already: Vitest fakes `node:timers`, too. */
function realTimers(module: PlatformTimers): PlatformTimers {
  const real: PlatformTimers = Object.create(module)
  for (const name of ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate'] as const) {
    const given: unknown = module[name]
    const original = (given as FakedFunction | undefined)?.clock?.[`_${name}`] ?? given
    if (typeof original === 'function') {
      // Browsers call these functions only on the global object.
      Object.assign(real, { [name]: original.bind(globalThis) })
    }
  }
  return real
}

/** The longest time of a timer, 24.8 days. What waits for longer sets its timer again. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** Makes timers that begin in the root context, and are cut to {@link MAX_TIMER_MS}. */
const outsideCalls =
  <T>(setTimer: SetTimer<T>): SetTimer<T> =>
  (run, millis) =>
    inRootContext(() => setTimer(run, Math.min(millis, MAX_TIMER_MS)))

const setImmediate = platform.setImmediate ?? ((run: Run): unknown => platform.setTimeout(run, 0))

/**
 * The platform's real timers. A test that fakes timers (`jest.useFakeTimers()`) must not stop calls over Redis or
 * their deadlines. No timer belongs to the AsyncLocalStorage context of the call that sets it.
 */
export const timers = {
  setTimeout: outsideCalls(platform.setTimeout),
  clearTimeout: platform.clearTimeout,
  setInterval: outsideCalls(platform.setInterval),
  clearInterval: platform.clearInterval,
  /** Runs a function after the present job. A promise does so, and tests do not fake it. */
  queueMicrotask: (run: () => void): void => void Promise.resolve().then(run),
  /** Runs a function after this tick of the event loop; on platforms without it, by a timer. */
  setImmediate: (run: Run): unknown => inRootContext(() => setImmediate(run)),
  /** Milliseconds of a monotonic clock. The prototype's function, because a test may replace that of the object. */
  now: (Object.getPrototypeOf(clock).now ?? clock.now).bind(clock) as () => number,
}

/** The platform's timers as they are at the time of a call, so that a test can fake them. */
export const fakeableTimers = {
  setTimeout: outsideCalls<NodeJS.Timeout>((run, millis) => globalThis.setTimeout(run, millis)),
  clearTimeout: (timer: NodeJS.Timeout | undefined) => globalThis.clearTimeout(timer),
  setInterval: outsideCalls<NodeJS.Timeout>((run, millis) => globalThis.setInterval(run, millis)),
  clearInterval: (timer: NodeJS.Timeout | undefined) => globalThis.clearInterval(timer),
}
