import * as glue from '../../../wasm/engine.js'
import type { Engine, EngineLedger, EnginePolicies, EnginePolicy, EngineStore } from '../../backends/engine.js'
import { draft, draftNumbers } from './builder.js'
import { CODES } from './operation-numbers.js'
import { Policies, Policy } from './policies.js'
import { checkRandom } from './random.js'
import { PANICKED } from './scratch.js'
import { desk } from './start.js'

/** A time below 0 asks for the platform's clock, as the engine has none. */
const SYSTEM_CLOCK = -1

function timeOf(epochMs: number): number {
  return epochMs < 0 ? Date.now() : epochMs
}

type Keys = readonly (string | undefined)[]

/** See `native.d.ts`. */
class Ledger implements EngineLedger {
  readonly isSingle: boolean
  readonly #glue: glue.Ledger

  constructor(ledger: glue.Ledger) {
    this.#glue = ledger
    this.isSingle = ledger.isSingle()
  }

  bindTake(answer: Float64Array): (key: string, cost?: number, epochMs?: number) => void {
    const ledger = this.#glue
    const { length } = answer
    return (key, cost = 1, epochMs = SYSTEM_CLOCK) => take(ledger, key, cost, epochMs, answer, 0, length)
  }

  bindPerform(answer: Float64Array): ReturnType<EngineLedger['bindPerform']> {
    return (operation, amount, epochMs, ...keys) => this.#perform(operation, [amount], keys, epochMs, answer)
  }

  takeMany(keys: readonly string[], costs: Float64Array, epochMs: number, answers: Float64Array): void {
    const length = answers.length / keys.length
    keys.forEach((key, index) => {
      take(this.#glue, key, costs[index] as number, epochMs, answers, index * length, length)
    })
  }

  refund(keys: Keys, units: number, taken: Float64Array, epochMs: number, answer: Float64Array): void {
    this.#perform(CODES.refund, [units, ...taken], keys, epochMs, answer)
  }

  settle(keys: Keys, numbers: Float64Array, epochMs: number, answer: Float64Array): void {
    this.#perform(CODES.settle, numbers, keys, epochMs, answer)
  }

  overrideNumbers(
    keys: Keys,
    policies: readonly (EnginePolicy | undefined)[],
    lastingUs: number,
    epochMs: number,
    answer: Float64Array,
  ): void {
    draftNumbers(glue, desk, policies)
    this.#perform(CODES.override, [lastingUs], keys, epochMs, answer)
  }

  book(keys: Keys, cost: number, maxWaitUs: number, epochMs: number, answer: Float64Array): void {
    this.#perform(CODES.book, [cost, maxWaitUs], keys, epochMs, answer)
  }

  unbook(keys: Keys, booked: Float64Array, epochMs: number, answer: Float64Array): void {
    this.#perform(CODES.unbook, booked, keys, epochMs, answer)
  }

  close(): void {
    this.#glue.close()
  }

  #perform(code: number, numbers: ArrayLike<number>, keys: Keys, epochMs: number, answer: Float64Array): void {
    checkRandom()
    const laid = desk.layKeys(keys)
    if (laid < 0) {
      answer[0] = laid
      return
    }
    try {
      this.#glue.perform(code, desk.layNumbers(numbers), timeOf(epochMs))
      desk.copyAnswer(answer, 0, answer.length)
    } catch {
      answer[0] = PANICKED
    }
  }
}

/** Takes units, and answers into so many of `answers` from `start` on. */
function take(
  ledger: glue.Ledger,
  key: unknown,
  cost: number,
  epochMs: number,
  answers: Float64Array,
  start: number,
  length: number,
): void {
  checkRandom()
  const laid = desk.layKey(key, 0)
  if (laid < 0) {
    answers[start] = laid
    return
  }
  try {
    ledger.take(laid, cost, timeOf(epochMs))
    desk.copyAnswer(answers, start, length)
  } catch {
    // A panic is a trap.
    answers[start] = PANICKED
  }
}

/** The stores of this engine that have a name. */
const named = new Map<
  string,
  { readonly store: glue.MemoryStore; readonly maxKeys: number; readonly ownClock: boolean }
>()

/** See `native.d.ts`. */
class MemoryStore implements EngineStore {
  readonly #glue: glue.MemoryStore

  constructor(maxKeys: number, name: string | undefined | null, ownClock: boolean) {
    this.#glue = typeof name === 'string' ? storeOf(name, maxKeys, ownClock) : new glue.MemoryStore(maxKeys)
  }

  get heldKeys(): number {
    return this.#glue.heldKeys()
  }

  open(prefix: string, policies: EnginePolicies): EngineLedger {
    const isSingle = draft(glue, desk, policies)
    desk.layText(prefix, 0)
    const ledger = this.#glue.open(isSingle)
    if (ledger === undefined) {
      throw desk.reason()
    }
    return new Ledger(ledger)
  }
}

/** The engine's store of a name. */
function storeOf(name: string, maxKeys: number, ownClock: boolean): glue.MemoryStore {
  const known = named.get(name) ?? { store: new glue.MemoryStore(maxKeys), maxKeys, ownClock }
  if (known.maxKeys !== maxKeys) {
    throw new Error(`is in use with maxKeys: ${known.maxKeys}`)
  }
  if (known.ownClock !== ownClock) {
    throw new Error('is in use with another clock')
  }
  named.set(name, known)
  return known.store
}

/** The engine as WebAssembly, of the same shape as the addon. */
export const engine: Engine = { MemoryStore, Policies, Policy }
