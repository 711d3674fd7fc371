/** Sends traffic through a policy: the real engine decides, by a clock that is the traffic's. */
import { MemoryStore, type Policy, RateLimiter } from 'tollgate/wasm'
import { type Law, lawsOf } from './laws.js'
import type { Traffic } from './trace.js'
import { type Admitted, rollingOf, type Worst, worstOf } from './windows.js'

/** A law, and how close the traffic has come to its bound. */
export interface Kept extends Law {
  readonly worst: Worst
}

/** What became of the traffic under one policy. Lists have an entry for each column of the plots. */
export interface Outcome {
  /** Calls of all keys. */
  readonly admitted: number
  readonly refused: number
  /** Those of the refused whose cost could never fit. */
  readonly impossible: number
  readonly admittedIn: readonly number[]
  readonly refusedIn: readonly number[]
  /** What the key that is watched has left at the end of each column. */
  readonly remaining: readonly number[]
  /** The most that it can have. */
  readonly full: number
  /** Each law, with the worst time of all keys. */
  readonly laws: readonly Kept[]
  /** Which of the laws is drawn: the one that came closest to its bound. */
  readonly drawn: number
  /** The most units of the watched key in the time, as long as the drawn law's, that ends within each column. */
  readonly rolling: readonly number[]
}

/** How a run is looked at. */
export interface Looking {
  readonly columns: number
  /** The key whose level is shown. */
  readonly watched: string
  /** Called again and again: it may wait, so that others get their turn, and throws to end the run. */
  readonly pause: () => Promise<void> | undefined
}

/** Runs the traffic, and looks at it in columns. */
export async function run(policy: Policy, traffic: Traffic, looking: Looking): Promise<Outcome> {
  const { columns, watched, pause } = looking
  const widthUs = traffic.lengthUs / columns
  let nowUs = 0
  const clock = () => traffic.startMs + nowUs / 1_000
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock }) })
  const [admittedIn, refusedIn] = [new Array<number>(columns).fill(0), new Array<number>(columns).fill(0)]
  const admittedBy = new Map<string, Admitted[]>()
  const remaining: number[] = []
  let [next, impossible] = [0, 0]

  for (let column = 0; column < columns; column++) {
    const end = column === columns - 1 ? Number.POSITIVE_INFINITY : (column + 1) * widthUs
    for (let call = traffic.calls[next]; call !== undefined && call.at < end; call = traffic.calls[next]) {
      const waiting = next % 64 === 0 ? pause() : undefined
      if (waiting !== undefined) {
        await waiting
      }
      nowUs = call.at
      const { allowed, status } = limiter.takeSync(call.key, call.cost)
      const counts = allowed ? admittedIn : refusedIn
      counts[column] = (counts[column] as number) + 1
      impossible += Number(status === 'impossible')
      if (allowed) {
        listOf(admittedBy, call.key).push({ at: call.at, units: call.cost })
      }
      next++
    }
    nowUs = Math.max(nowUs, Math.floor((column + 1) * widthUs))
    remaining.push((await limiter.peek(watched, 0)).remaining)
  }
  const full = (await limiter.peek('\u0000 nobody', 0)).limit
  await limiter.close()
  const laws = lawsOf(policy).map((law): Kept => ({ ...law, worst: worstOfAll(admittedBy, law) }))
  const drawn = closestOf(laws)
  return {
    admitted: sum(admittedIn),
    refused: sum(refusedIn),
    impossible,
    admittedIn,
    refusedIn,
    remaining,
    full,
    laws,
    drawn,
    rolling: rollingOf(admittedBy.get(watched) ?? [], laws[drawn] as Law, columns, widthUs),
  }
}

function listOf(lists: Map<string, Admitted[]>, key: string): Admitted[] {
  const list = lists.get(key) ?? []
  lists.set(key, list)
  return list
}

/** Each key is judged by itself, as it is by the policy. */
function worstOfAll(admittedBy: ReadonlyMap<string, readonly Admitted[]>, law: Law): Worst {
  const all = [...admittedBy.values()].map((admitted) => worstOf(admitted, law))
  return all.reduce((worst, one) => (one.units > worst.units ? one : worst), { units: 0, fromUs: 0 })
}

/** The law that came closest to its bound; of equals the one of the longest time. */
function closestOf(laws: readonly Kept[]): number {
  const share = ({ worst, most }: Kept) => worst.units / most
  const order = laws.map((_, index) => index)
  order.sort((one, other) => {
    const [a, b] = [laws[one] as Kept, laws[other] as Kept]
    return share(b) - share(a) || b.spanUs - a.spanUs
  })
  return order[0] as number
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
