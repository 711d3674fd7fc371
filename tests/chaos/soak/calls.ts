import { createHistogram, type RecordableHistogram } from 'node:perf_hooks'
import { TollgateError, type TollgateErrorCode } from 'tollgate'
import { type LoopClock, LoopDelay } from '../loop-delay.js'

/** The rules of one kind of call. */
export interface CallKind {
  /** The name in the record. */
  readonly name: string
  /** The store that decides, by its target's name. */
  readonly target: string
  /** The deadline, in milliseconds. */
  readonly deadlineMs: number
  /** The codes that the call may fail with. */
  readonly codes: readonly TollgateErrorCode[]
}

/** The durations of one kind of call since the last sample: in milliseconds. */
export type Durations = readonly [count: number, p50: number, p99: number, max: number]

/** The results of calls since the last report. */
export interface CallReport {
  readonly errors: Readonly<Record<string, number>>
  /** The times of failures of each store, as epoch milliseconds, one for each stretch of {@link STRETCH_MS}. */
  readonly failures: Readonly<Record<string, readonly number[]>>
  /** Broken promises. */
  readonly violations: readonly string[]
}

/** A call that has not settled. */
interface Pending {
  readonly kind: CallKind
  readonly start: number
}

/**
 * The allowed delay after a deadline, in milliseconds: longer than in the chaos table, because a long
 * soak shares its machine.
 */
const LATE_MS = 300

/**
 * A call that is pending for so long after its deadline, without stalls of the event loop, never
 * settles. In milliseconds.
 */
const LOST_MS = 10_000

/** The resolution of the times of failures, in milliseconds. */
export const STRETCH_MS = 250

/**
 * A failure is no evidence against the store if the event loop stood still for so long in the time
 * before it. In milliseconds.
 */
const [BUSY_MS, BEFORE_MS] = [500, 5_000]

/** The codes of a store that could not decide. */
export const STORE_CODES = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT', 'STORE_ERROR'] as const

/** Makes calls, and checks that each settles by its deadline, with an expected result. */
export class Calls {
  readonly #delay: LoopDelay
  readonly #durations = new Map<string, RecordableHistogram>()
  readonly #pending = new Set<Pending>()
  #late: { readonly kind: CallKind; readonly start: number; readonly settled: number }[] = []
  #errors: Record<string, number> = {}
  #failed: { readonly target: string; readonly settled: number }[] = []
  #violations: string[] = []

  /** @param clock - Default: this process's. */
  constructor(clock?: LoopClock) {
    this.#delay = new LoopDelay(60_000, clock)
    this.#delay.start()
  }

  /** Records a broken promise. */
  violate(text: string): void {
    this.#violations.push(text)
  }

  /** Makes one call. Returns its result, or `undefined` if it failed with an expected code. */
  async make<T>(kind: CallKind, call: () => PromiseLike<T>): Promise<T | undefined> {
    const pending = { kind, start: this.#delay.now }
    this.#pending.add(pending)
    try {
      return await call()
    } catch (error) {
      this.#fail(kind, error)
      return undefined
    } finally {
      this.#pending.delete(pending)
      this.#settle(kind, pending.start)
    }
  }

  /** The durations since the last time, by kind. */
  durations(): Record<string, Durations> {
    const all = [...this.#durations].filter(([, { count }]) => count > 0)
    const result = Object.fromEntries(
      all.map(([name, histogram]) => {
        const ms = (nanoseconds: number) => Math.round(nanoseconds / 1e4) / 100
        const [p50, p99] = [histogram.percentile(50), histogram.percentile(99)]
        return [name, [histogram.count, ms(p50), ms(p99), ms(histogram.max)] as const]
      }),
    )
    for (const [, histogram] of all) {
      histogram.reset()
    }
    return result
  }

  /** The results since the last time. Call this a while after the last call has settled. */
  report(): CallReport {
    const now = this.#delay.now
    for (const { kind, start, settled } of this.#late) {
      const net = this.#delay.net(start, settled, kind.deadlineMs)
      if (net > kind.deadlineMs + LATE_MS) {
        this.violate(`${kind.name} (${kind.target}) was pending for ${net.toFixed()} ms of ${kind.deadlineMs}`)
      }
    }
    for (const pending of this.#pending) {
      const { kind, start } = pending
      const ms = this.#delay.ofWhich(start, now)
      if (ms > kind.deadlineMs + LOST_MS) {
        this.violate(`${kind.name} (${kind.target}) has not settled for ${ms.toFixed()} ms`)
        this.#pending.delete(pending)
      }
    }
    const report = { errors: this.#errors, failures: this.#failures(), violations: this.#violations }
    this.#late = []
    this.#errors = {}
    this.#failed = []
    this.#violations = []
    return report
  }

  /** The number of calls that have not settled. */
  get pending(): number {
    return this.#pending.size
  }

  stop(): void {
    this.#delay.stop()
  }

  /** The times of failures that are evidence against a store. */
  #failures(): Record<string, number[]> {
    const failures: Record<string, number[]> = {}
    for (const { target, settled } of this.#failed) {
      const times = failures[target] ?? []
      const at = Math.round(performance.timeOrigin + settled)
      const busyMs = BEFORE_MS - this.#delay.ofWhich(settled - BEFORE_MS, settled)
      if (busyMs < BUSY_MS && at - (times.at(-1) ?? 0) >= STRETCH_MS) {
        failures[target] = [...times, at]
      }
    }
    return failures
  }

  #settle(kind: CallKind, start: number): void {
    const settled = this.#delay.now
    let histogram = this.#durations.get(kind.name)
    if (histogram === undefined) {
      histogram = createHistogram({ lowest: 1, highest: 120e9, figures: 2 })
      this.#durations.set(kind.name, histogram)
    }
    histogram.record(Math.max(1, Math.round((settled - start) * 1e6)))
    if (settled - start > kind.deadlineMs) {
      this.#late.push({ kind, start, settled })
    }
  }

  #fail(kind: CallKind, error: unknown): void {
    if (!TollgateError.is(error)) {
      this.violate(`${kind.name} (${kind.target}) failed with ${error instanceof Error ? error.stack : error}`)
      return
    }
    const { code } = error
    this.#errors[code] = (this.#errors[code] ?? 0) + 1
    if (!kind.codes.includes(code)) {
      this.violate(`${kind.name} (${kind.target}) failed with ${code}: ${error.message}`)
    }
    if ((STORE_CODES as readonly string[]).includes(code)) {
      this.#failed.push({ target: kind.target, settled: this.#delay.now })
    }
  }
}
