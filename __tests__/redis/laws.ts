/**
 * Admission laws as checks of a trace: each reports an excess, or nothing. All times are whole
 * microseconds.
 */

/** One admitted call. A trace is in order of time. */
export interface Admitted {
  readonly at: number
  readonly cost: number
}

/** A law's violation in a trace. */
export type Law = (trace: readonly Admitted[]) => string | undefined

/** At most `units` in any half-open span of `millis` milliseconds. */
export function inAnySpan(units: number, millis: number): Law {
  return (trace) => {
    let [tail, sum] = [0, 0]
    for (const { at, cost } of trace) {
      sum += cost
      for (let first = trace[tail] as Admitted; first.at <= at - millis * 1_000; first = trace[tail] as Admitted) {
        sum -= first.cost
        tail++
      }
      if (sum > units) {
        return `${sum} of ${units} units in the ${millis} ms up to ${at}`
      }
    }
    return undefined
  }
}

/** At most `burst`, and `units` for each `millis` milliseconds, in any span. */
export function atRate(burst: number, units: number, millis: number): Law {
  const perUnit = millis * 1_000
  return (trace) => {
    const start = trace[0]?.at ?? 0
    // In units times the period, which are whole numbers: the minimum, before any call, of the
    // units taken less the units that the rate has given.
    let [taken, min] = [0, Number.POSITIVE_INFINITY]
    for (const { at, cost } of trace) {
      const given = (at - start) * units
      min = Math.min(min, taken * perUnit - given)
      taken += cost
      const excess = taken * perUnit - given - min - burst * perUnit
      if (excess > 0) {
        return `${excess / perUnit} units above the burst and the rate at ${at}`
      }
    }
    return undefined
  }
}

/** At most `burst`, and `units` · (⌊t / `millis`⌋ + 1) in any span of length t. */
export function inIntervals(burst: number, units: number, millis: number): Law {
  return (trace) => {
    for (const [index, { at: start }] of trace.entries()) {
      let sum = 0
      for (let next = index; next < trace.length; next++) {
        const { at, cost } = trace[next] as Admitted
        sum += cost
        const max = burst + units * (Math.floor((at - start) / (millis * 1_000)) + 1)
        if (sum > max) {
          return `${sum} of ${max} units between ${start} and ${at}`
        }
      }
    }
    return undefined
  }
}

/** At most `units` in each window of `millis` milliseconds on the grid of the Unix epoch. */
export function inEachGridWindow(units: number, millis: number): Law {
  return inWindows(units, (at) => (Math.floor(at / (millis * 1_000)) + 1) * millis * 1_000)
}

/**
 * At most `units` in each window. The first call after a window opens the next, which ends on a
 * whole millisecond.
 */
export function inEachOpenedWindow(units: number, millis: number): Law {
  return inWindows(units, (at) => Math.ceil((at + millis * 1_000) / 1_000) * 1_000)
}

function inWindows(units: number, endOf: (at: number) => number): Law {
  return (trace) => {
    let [end, sum] = [0, 0]
    for (const { at, cost } of trace) {
      if (at >= end) {
        ;[end, sum] = [endOf(at), 0]
      }
      sum += cost
      if (sum > units) {
        return `${sum} of ${units} units in the window that ends at ${end}`
      }
    }
    return undefined
  }
}
