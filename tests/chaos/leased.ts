import { readFileSync } from 'node:fs'
import { fixedWindow, gcra, type LocalDecisions } from 'tollgate'
import { type Admitted, atRate } from '../../__tests__/redis/laws.js'
import type { Admission } from './admission.js'

export const LIMITERS = ['window', 'rate'] as const

const WINDOW = { limit: 1_500, window: 1_000 } as const
const RATE = { limit: 2_000, period: 1_000, burst: 800 } as const

/** The policies of the processes. The demand is far above them. */
export const LEASED = { window: fixedWindow(WINDOW), rate: gcra(RATE) } as const

export const LEASED_LOCAL: Readonly<Record<(typeof LIMITERS)[number], LocalDecisions>> = {
  window: { lease: '200ms', refusals: '1s' },
  rate: { lease: '200ms', refusals: '1s' },
}

/**
 * The bytes of an admitted call: the limiter's index; the time of use by the machine's monotonic
 * clock in microseconds, 0 without a lease; the time of the decision and its reset time in epoch
 * milliseconds.
 */
export const RECORD_BYTES = 32

/** The inaccuracy of a recorded time, in microseconds: a process may be stopped before it reads the clock. */
const TOLERANCE_US = 5_000

/** An admitted call, with times in microseconds by the server's clock. */
interface LeasedCall extends Admitted {
  readonly resetAt: number
}

/**
 * Compares the calls in trace files with the laws.
 *
 * @param offsetUs - The server's clock less the machine's monotonic clock, in microseconds.
 * @param losses - How often the server lost its data.
 */
export function leasedAdmissions(files: readonly string[], offsetUs: number, losses: number): Admission[] {
  const all = files.map((file) => readFileSync(file))
  return LIMITERS.map((limiter, which) => {
    const calls: LeasedCall[] = []
    for (const bytes of all) {
      // The last record of a killed process may be cut.
      for (let from = 0; from + RECORD_BYTES <= bytes.length; from += RECORD_BYTES) {
        const [index, usedAt, at, resetAt] = [0, 8, 16, 24].map((offset) => bytes.readDoubleLE(from + offset)) as [
          number,
          number,
          number,
          number,
        ]
        if (index === which) {
          calls.push({ at: usedAt === 0 ? at * 1_000 : usedAt + offsetUs, cost: 1, resetAt: resetAt * 1_000 })
        }
      }
    }
    calls.sort((one, other) => one.at - other.at)
    return { limiter, key: 'key', ...(limiter === 'window' ? windowAdmission(calls) : rateAdmission(calls, losses)) }
  })
}

/** The fullest window. A window that was lost is followed by another one with another end. */
function windowAdmission(calls: readonly LeasedCall[]): Pick<Admission, 'admitted' | 'bound' | 'wrong'> {
  const windows: { readonly end: number; units: number; lastUse: number }[] = []
  for (const { at, resetAt } of calls) {
    // The end of a window is known to 2 ms.
    const window = windows.findLast(({ end }) => Math.abs(end - resetAt) < 20_000)
    if (window === undefined) {
      windows.push({ end: resetAt, units: 1, lastUse: at })
    } else {
      window.units++
      window.lastUse = at
    }
  }
  const fullest = windows.reduce((most, { units }) => Math.max(most, units), 0)
  const late = windows.find(({ end, lastUse }) => lastUse > end + TOLERANCE_US)
  const wrong =
    fullest > WINDOW.limit
      ? `${fullest} of ${WINDOW.limit} units in a window`
      : late && `a unit is used ${late.lastUse - late.end} µs after its window`
  return { admitted: fullest, bound: WINDOW.limit, wrong }
}

function rateAdmission(calls: readonly LeasedCall[], losses: number): Pick<Admission, 'admitted' | 'bound' | 'wrong'> {
  const slack = Math.ceil((RATE.limit * TOLERANCE_US) / (RATE.period * 1_000))
  const burst = RATE.burst * (1 + losses) + slack
  const micros = (calls.at(-1)?.at ?? 0) - (calls[0]?.at ?? 0)
  const bound = Math.floor(burst + (RATE.limit * micros) / (RATE.period * 1_000))
  return { admitted: calls.length, bound, wrong: atRate(burst, RATE.limit, RATE.period)(calls) }
}
