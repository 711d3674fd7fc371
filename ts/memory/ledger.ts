import type * as native from '../../native.js'
import { ANSWER_LENGTH, decisionAt, failureAt, failureOf } from '../answer.js'
import type { Decision } from '../decision.js'
import { TollgateError } from '../error.js'
import { invalid } from '../options.js'
import { DETAILS_LENGTH, severalAt } from '../several.js'
import type { Answers, Ledger } from '../store.js'

/** Tells the engine to read the system's clock. */
const SYSTEM_CLOCK = -1

/** The last time that the engine counts with: 2^52 microseconds, in the year 2112. */
const LAST_TIME_MS = 2 ** 52 / 1_000

/** A limiter's keys on the embedded store: every call is answered at once, on this thread. */
export class MemoryLedger implements Ledger {
  readonly isSync = true
  readonly #native: native.Ledger
  readonly #clock: (() => number) | undefined
  /** The names of the policy's limits, if they have names, and so the length of an answer. */
  readonly #names: readonly string[] | undefined
  readonly #length: number
  readonly #answer: Float64Array<ArrayBuffer>
  readonly #take: (key: string, cost?: number, epochMs?: number) => void
  readonly #peek: (key: string, cost?: number, epochMs?: number) => void

  constructor(ledger: native.Ledger, clock: (() => number) | undefined, names: readonly string[] | undefined) {
    this.#native = ledger
    this.#clock = clock
    this.#names = names
    this.#length = ANSWER_LENGTH + (names === undefined ? 0 : DETAILS_LENGTH)
    this.#answer = new Float64Array(this.#length)
    this.#take = ledger.bindTake(this.#answer)
    this.#peek = ledger.bindPeek(this.#answer)
  }

  take(key: string, cost: number): Decision {
    const answer = this.#answer
    if (this.#clock !== undefined) {
      this.#take(key, cost, timeOf(this.#clock))
    } else if (cost === 1) {
      // Every argument costs its conversion: the most frequent call has none but the key.
      this.#take(key)
    } else {
      this.#take(key, cost)
    }
    return decisionAt(answer, 0) ?? this.#told(key)
  }

  peek(key: string, cost: number): Decision {
    const answer = this.#answer
    this.#peek(key, cost, this.#now())
    return decisionAt(answer, 0) ?? this.#told(key)
  }

  takeMany(keys: readonly string[], costs: readonly number[]): Answers {
    const answers = new Float64Array(keys.length * this.#length)
    this.#native.takeMany(keys, Float64Array.from(costs), this.#now(), answers)
    return keys.map((key, index) => {
      const start = index * this.#length
      return decisionAt(answers, start) ?? this.#severalAt(answers, start) ?? failureAt(answers, start, key)
    })
  }

  reset(key: string): void {
    const code = this.#native.reset(key, this.#now())
    if (code === 1) {
      const rule = 'the store holds maxKeys keys and this one shares its count with others, so it cannot be reset alone'
      throw new TollgateError('STORE_FULL', rule)
    }
    if (code !== 0) {
      throw failureOf(code, key)
    }
  }

  async ready(): Promise<void> {}

  async close(): Promise<void> {
    this.#native.close()
  }

  /** What stands in the answer, if it is no decision on one limit. */
  #told(key: string): Decision {
    const decision = this.#severalAt(this.#answer, 0)
    if (decision === undefined) {
      throw failureAt(this.#answer, 0, key)
    }
    return decision
  }

  #severalAt(answers: Float64Array, start: number): Decision | undefined {
    return this.#names === undefined ? undefined : severalAt(answers, start, this.#names)
  }

  #now(): number {
    return this.#clock === undefined ? SYSTEM_CLOCK : timeOf(this.#clock)
  }
}

/** The time by the user's clock. */
function timeOf(clock: () => number): number {
  const time = readingOf(clock)
  if (typeof time === 'number' && time >= 0 && time <= LAST_TIME_MS) {
    return time
  }
  throw invalid('INVALID_OPTION', 'clock', `must return epoch milliseconds from 0 to ${LAST_TIME_MS}`, time)
}

function readingOf(clock: () => unknown): unknown {
  try {
    return clock()
  } catch (cause) {
    throw new TollgateError('INVALID_OPTION', 'clock must return epoch milliseconds, but it threw', { cause })
  }
}
