import { atRate, inAnySpan } from '../../__tests__/redis/laws.js'
import type { LoadReport, Unit } from './load.js'
import { RATE, WINDOW } from './traffic.js'

export type Limited = 'window' | 'rate'

/** Units that a limiter admitted on the key nearest to its bound, or furthest above it. */
export interface Admission {
  readonly limiter: Limited
  readonly key: string
  /** For a window, the units in the fullest span of its length; for a rate, all units. */
  readonly admitted: number
  /** The units that the law allows, plus the documented excess under the fault. */
  readonly bound: number
  /** The violation, if any. */
  readonly wrong: string | undefined
}

/** The documented effect of a fault on the state and on the clock. */
export interface Excess {
  /**
   * Losses of a key's state, and steps ahead of the clock: each may admit one extra limit or burst.
   */
  readonly losses: number | ((limiter: Limited, key: string) => number)
  /**
   * The fault loses only the latest part of a state, for example to a lagging replica: the window
   * stays open.
   */
  readonly isSetBack?: boolean
  /** The time by this machine's clock, if the deciding clock was stepped. In microseconds. */
  readonly timeOf?: (unit: Unit) => number
}

/** The admitted units of each limiter, compared with its bound. */
export function admissions(reports: readonly LoadReport[], excess: Excess): Admission[] {
  const { losses, isSetBack = false, timeOf = ({ at }) => at } = excess
  return (['window', 'rate'] as const).map((limiter) => {
    const keys = Object.keys(reports[0]?.admitted[limiter] ?? {})
    const each = keys.map((key) => {
      const units = reports.flatMap(({ admitted }) => admitted[limiter][key] ?? [])
      const trace = units.map((unit) => ({ ...unit, at: timeOf(unit) })).sort((a, b) => a.at - b.at)
      const count = typeof losses === 'number' ? losses : losses(limiter, key)
      return { limiter, key, ...JUDGES[limiter](trace, count, isSetBack) }
    })
    return each.reduce((worst, one) => (severity(one) > severity(worst) ? one : worst))
  })
}

function severity({ admitted, bound, wrong }: Admission): number {
  return (wrong === undefined ? 0 : 1_000) + admitted / bound
}

type Judge = (
  trace: readonly Unit[],
  losses: number,
  isSetBack: boolean,
) => Pick<Admission, 'admitted' | 'bound' | 'wrong'>

const JUDGES: Readonly<Record<Limited, Judge>> = {
  window(trace, losses, isSetBack) {
    const bound = 2 * WINDOW.limit - 1 + WINDOW.limit * losses
    let [tail, admitted] = [0, 0]
    for (const [index, { at }] of trace.entries()) {
      while ((trace[tail] as Unit).at <= at - WINDOW.window * 1_000) {
        tail++
      }
      admitted = Math.max(admitted, index - tail + 1)
    }
    const rolling = inAnySpan(bound, WINDOW.window)(trace.map(({ at }) => ({ at, cost: 1 })))
    // A window keeps its own limit, whatever happens to its neighbours, unless its state is set
    // back.
    const limit = WINDOW.limit * (isSetBack ? 1 + losses : 1)
    const windows = new Map<number, number>()
    for (const { windowEnd } of trace) {
      windows.set(windowEnd, (windows.get(windowEnd) ?? 0) + 1)
    }
    const [end, fullest] = [...windows].reduce((most, one) => (one[1] > most[1] ? one : most), [0, 0])
    const own = fullest > limit ? `${fullest} of ${limit} units in the window that ends at ${end}` : undefined
    return { admitted, bound, wrong: own ?? rolling }
  },

  rate(trace, losses) {
    const burst = RATE.burst * (1 + losses)
    const micros = (trace.at(-1)?.at ?? 0) - (trace[0]?.at ?? 0)
    const bound = Math.floor(burst + (RATE.limit * micros) / (RATE.period * 1_000))
    const wrong = atRate(burst, RATE.limit, RATE.period)(trace.map(({ at }) => ({ at, cost: 1 })))
    return { admitted: trace.length, bound, wrong }
  },
}
