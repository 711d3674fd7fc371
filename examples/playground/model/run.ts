/**
 * Runs traffic through a policy. The real engine decides, with a clock that follows the traffic.
 */
import { MemoryStore, type Policy, RateLimiter } from 'tollgate/wasm'
import { type Law, lawsOf } from './laws.js'
import { costUnder, meterOf, type Traffic } from './trace.js'
import { type AdmittedCall, rollingOf, type WorstSpan, worstSpanOf } from './windows.js'

/** A bound, and how close the traffic came to it. */
export interface LawResult extends Law {
  readonly worst: WorstSpan
}

/**
 * The result of the traffic under one policy. Lists have one entry for each column of the plots.
 */
export interface RunResult {
  /** What the policy counts; `undefined`: calls. */
  readonly meter: string | undefined
  /** Calls of all keys. */
  readonly admitted: number
  readonly refused: number
  /** The refused calls whose cost could never fit. */
  readonly impossible: number
  readonly admittedIn: readonly number[]
  readonly refusedIn: readonly number[]
  /** The remaining units of the watched key at the end of each column. */
  readonly remaining: readonly number[]
  /** The remaining units of an unused key. */
  readonly full: number
  /** Each bound, with the worst span of all keys. */
  readonly laws: readonly LawResult[]
  /** The index of the bound that the plots show: the one that came closest. */
  readonly drawn: number
  /**
   * For each column, the most units admitted to the watched key in a time span that ends there. The
   * span has the length of the plotted bound.
   */
  readonly rolling: readonly number[]
  /** The same for the span that all policies share in the comparison. */
  readonly compared: readonly number[]
  /** The number of admitted calls of each key. */
  readonly admittedOf: ReadonlyMap<string, number>
  /** One byte for each call: 1 if it was admitted. */
  readonly decisions: Uint8Array
}

/** The options of a run. */
export interface RunOptions {
  readonly columns: number
  /** The key whose level is plotted. */
  readonly watched: string
  /** The bound whose span all policies share in the comparison. */
  readonly compared: Law
  /**
   * Called regularly. It may return a promise, so that other messages are handled, and it throws to
   * cancel the run.
   */
  readonly pause: () => Promise<void> | undefined
}

/** Runs the traffic, and collects the results in columns. Each call has units of the policy's meter: `checkMeter`. */
export async function run(policy: Policy, traffic: Traffic, options: RunOptions): Promise<RunResult> {
  const { columns, watched, compared, pause } = options
  const widthUs = traffic.lengthUs / columns
  let nowUs = 0
  const clock = () => traffic.startMs + nowUs / 1_000
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock }) })
  const [admittedIn, refusedIn] = [new Array<number>(columns).fill(0), new Array<number>(columns).fill(0)]
  const meter = meterOf(policy)
  // The type of a policy does not tell its meter.
  const costOf = (units: number) => (meter === undefined ? units : { cost: { [meter]: units } }) as number
  const admittedBy = new Map<string, AdmittedCall[]>()
  const remaining: number[] = []
  const decisions = new Uint8Array(traffic.calls.length)
  let [next, impossible] = [0, 0]

  for (let column = 0; column < columns; column++) {
    const end = column === columns - 1 ? Number.POSITIVE_INFINITY : (column + 1) * widthUs
    for (let call = traffic.calls[next]; call !== undefined && call.at < end; call = traffic.calls[next]) {
      const pending = next % 64 === 0 ? pause() : undefined
      if (pending !== undefined) {
        await pending
      }
      nowUs = call.at
      const units = costUnder(meter, call) as number
      const { allowed, status } = limiter.takeSync(call.key, costOf(units))
      const counts = allowed ? admittedIn : refusedIn
      counts[column] = (counts[column] as number) + 1
      impossible += Number(status === 'impossible')
      decisions[next] = Number(allowed)
      if (allowed) {
        listOf(admittedBy, call.key).push({ at: call.at, units })
      }
      next++
    }
    nowUs = Math.max(nowUs, Math.floor((column + 1) * widthUs))
    remaining.push((await limiter.peek(watched, costOf(0))).remaining)
  }
  const full = (await limiter.peek('\u0000 nobody', costOf(0))).capacity
  await limiter.close()
  const laws = lawsOf(policy).map((law): LawResult => ({ ...law, worst: worstSpanOfAll(admittedBy, law) }))
  const drawn = closestOf(laws)
  const watchedCalls = admittedBy.get(watched) ?? []
  // A policy's own bound says whether both ends belong to the span.
  const shared = laws.find(({ spanUs }) => spanUs === compared.spanUs) ?? compared
  return {
    meter,
    admitted: sum(admittedIn),
    refused: sum(refusedIn),
    impossible,
    admittedIn,
    refusedIn,
    remaining,
    full,
    laws,
    drawn,
    rolling: rollingOf(watchedCalls, laws[drawn] as Law, columns, widthUs),
    compared: rollingOf(watchedCalls, shared, columns, widthUs),
    admittedOf: new Map([...admittedBy].map(([key, calls]) => [key, calls.length])),
    decisions,
  }
}

function listOf(lists: Map<string, AdmittedCall[]>, key: string): AdmittedCall[] {
  const list = lists.get(key) ?? []
  lists.set(key, list)
  return list
}

/** Each key has its own bound, as in the policy. */
function worstSpanOfAll(admittedBy: ReadonlyMap<string, readonly AdmittedCall[]>, law: Law): WorstSpan {
  const all = [...admittedBy.values()].map((admitted) => worstSpanOf(admitted, law))
  return all.reduce((worst, one) => (one.units > worst.units ? one : worst), { units: 0, fromUs: 0 })
}

/** The bound that came closest; of equal ones, that with the longest span. */
function closestOf(laws: readonly LawResult[]): number {
  const share = ({ worst, most }: LawResult) => worst.units / most
  const order = laws.map((_, index) => index)
  order.sort((one, other) => {
    const [a, b] = [laws[one] as LawResult, laws[other] as LawResult]
    return share(b) - share(a) || b.spanUs - a.spanUs
  })
  return order[0] as number
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
