import type { Engine, EngineLedger } from '../engine.js'
import { ANSWER_LENGTH } from '../response.js'

/** How a ledger is asked for units: its `number` is written to `which`, then the function is called. */
export interface Asked {
  readonly take: (key: string, cost?: number, epochMs?: number) => void
  readonly which: Uint32Array
  readonly number: number
  /** Where the answer is then, until another ledger is asked. */
  readonly answer: Float64Array
}

/** What ledgers share that tell of a single limit, by engine: one function, so that engines of JavaScript call it directly. */
const shared = new WeakMap<Engine, Shared>()

interface Shared extends Omit<Asked, 'number'> {
  readonly takes: InstanceType<NonNullable<Engine['Takes']>>
}

/** @param length - Of the ledger's answers, in doubles. */
export function askedOf(engine: Engine, ledger: EngineLedger, length: number): Asked {
  const { Takes } = engine
  if (Takes === undefined || !ledger.isSingle) {
    const answer = new Float64Array(length)
    return { take: ledger.bindTake(answer), which: new Uint32Array(1), number: 0, answer }
  }
  const known = shared.get(engine) ?? sharedBy(Takes)
  shared.set(engine, known)
  const { takes, take, which, answer } = known
  return { take, which, number: takes.add(ledger), answer }
}

function sharedBy(Takes: NonNullable<Engine['Takes']>): Shared {
  const takes = new Takes()
  const which = new Uint32Array(1)
  const answer = new Float64Array(ANSWER_LENGTH)
  return { takes, take: takes.bind(which, answer), which, answer }
}
