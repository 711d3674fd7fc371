import type { LimiterPolicies } from '../policies.js'
import { NO_KEY } from './log/key-table.js'

/** The steps of a window: the requests of one step count together. */
const STEPS = 60

/** Gaps between peaks are reported from this ratio on. */
const MIN_GAP = 2

/** The requests of a key within the latest window. */
interface KeyWindow {
  /** Numbers of steps, ascending, and the units in each. Those before `begin` are over. */
  readonly steps: number[]
  readonly units: number[]
  begin: number
  sum: number
  peak: number
}

/** A range of limits that separates few keys from all others. */
export interface PeakGap {
  /** The smallest and the largest limit of the range. */
  readonly from: number
  readonly to: number
  /** A round limit in its middle. */
  readonly middle: number
  readonly keys: number
}

export interface PeakReport {
  readonly windowMs: number
  readonly keys: number
  /** The peaks that half, 90 %, 99 % of the keys, and all keys do not exceed. */
  readonly quantiles: { readonly p50: number; readonly p90: number; readonly p99: number; readonly max: number }
  /** For some limits, ascending, the number of keys whose peak is above: from the last that all exceed. */
  readonly limits: readonly { readonly limit: number; readonly keys: number }[]
  /** The widest gap between two peaks, relative to the lower; `null` if there is no wide one. */
  readonly gap: PeakGap | null
}

/** The most units of each key within any window of a length, rounded to a sixtieth of it. Times must not decrease. */
export class Peaks {
  readonly windowMs: number
  readonly #keys = new Map<number, KeyWindow>()

  constructor(windowMs: number) {
    this.windowMs = windowMs
  }

  count(time: number, units: number, key: number): void {
    if (key === NO_KEY) {
      return
    }
    let window = this.#keys.get(key)
    if (window === undefined) {
      window = { steps: [], units: [], begin: 0, sum: 0, peak: 0 }
      this.#keys.set(key, window)
    }
    const step = Math.floor((time * STEPS) / this.windowMs)
    const { steps } = window
    while (window.begin < steps.length && (steps[window.begin] as number) <= step - STEPS) {
      window.sum -= window.units[window.begin] as number
      window.begin++
    }
    if (window.begin >= STEPS) {
      steps.splice(0, window.begin)
      window.units.splice(0, window.begin)
      window.begin = 0
    }
    if (steps.at(-1) === step && window.begin < steps.length) {
      window.units[steps.length - 1] = (window.units[steps.length - 1] as number) + units
    } else {
      steps.push(step)
      window.units.push(units)
    }
    window.sum += units
    window.peak = Math.max(window.peak, window.sum)
  }

  get report(): PeakReport {
    const peaks = [...this.#keys.values()].map(({ peak }) => peak).sort((one, other) => one - other)
    const quantile = (share: number) => peaks[Math.max(0, Math.ceil(share * peaks.length) - 1)] ?? 0
    const max = quantile(1)
    return {
      windowMs: this.windowMs,
      keys: peaks.length,
      quantiles: { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99), max },
      limits: limitsFrom(peaks),
      gap: widestGap(peaks),
    }
  }
}

/** The keys above round limits, from the last limit that all exceed to the first that none does. */
function limitsFrom(peaks: readonly number[]): PeakReport['limits'] {
  const limits: { limit: number; keys: number }[] = []
  for (const limit of roundNumbers()) {
    const keys = peaks.filter((peak) => peak > limit).length
    if (keys === peaks.length) {
      limits.pop()
    }
    limits.push({ limit, keys })
    if (keys === 0) {
      break
    }
  }
  return limits
}

function* roundNumbers(): Generator<number> {
  for (let power = 1; ; power *= 10) {
    yield* [power, 2 * power, 5 * power]
  }
}

/** @param peaks - In ascending order. */
function widestGap(peaks: readonly number[]): PeakGap | null {
  let gap: PeakGap | null = null
  let widest = MIN_GAP
  // Few keys are busy: most are below the gap.
  for (let index = Math.ceil(peaks.length / 2); index < peaks.length; index++) {
    const [below, above] = [Math.max(1, peaks[index - 1] as number), peaks[index] as number]
    if (above / below >= widest) {
      widest = above / below
      gap = { from: below, to: above - 1, middle: middleOf(below, above - 1), keys: peaks.length - index }
    }
  }
  return gap
}

/** The round number of a range that is nearest to its geometric mean; the mean if it has none. */
function middleOf(from: number, to: number): number {
  const mean = Math.sqrt(from * to)
  const power = 10 ** Math.floor(Math.log10(mean))
  const distance = (number: number) => Math.abs(Math.log(number / mean))
  const round = [1, 2, 5, 10].map((factor) => factor * power).filter((number) => number >= from && number <= to)
  return round.sort((one, other) => distance(one) - distance(other))[0] ?? Math.round(mean)
}

/** The lengths of the windows of policies, each once. Buckets have none of their own. */
export function windowsOf(policies: readonly LimiterPolicies[]): number[] {
  const windows = policies.map(({ policy }) => windowOf(policy)).filter((window) => window !== undefined)
  return [...new Set(windows)].sort((one, other) => one - other)
}

/** The length of a policy's window; `undefined` if it has none, or if it is several policies. */
export function windowOf(policy: LimiterPolicies['policy']): number | undefined {
  const isSingle = 'algorithm' in policy && typeof policy.algorithm === 'string'
  const { period, window = period } = policy as { readonly period?: number; readonly window?: number }
  return isSingle ? window : undefined
}
