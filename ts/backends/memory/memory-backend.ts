import type { Decision } from '../../api/decision.js'
import { stamped } from '../../api/decision-metadata.js'
import { TollgateError } from '../../api/error.js'
import type { Keys } from '../../input/keys.js'
import { invalid } from '../../input/options.js'
import type { Policy } from '../../policies/policy.js'
import type { Compound } from '../../policies/policy-set.js'
import { compiled } from '../compiled.js'
import type { Engine, EngineLedger, EnginePolicy } from '../engine.js'
import type { Answers, Ledger } from '../limiter-backend.js'
import { bookingAt, lengthOf, performedAt, severalAt } from '../multi-policy.js'
import {
  BOOKING_LENGTH,
  type Booking,
  numbersOfSettle,
  OPERATION_CODES,
  type Operation,
  type Performed,
} from '../operation.js'
import { ANSWER_LENGTH, decisionAt, failureAt } from '../response.js'
import { type Asked, askedOf } from './operation-calls.js'

/** Tells the engine to read the system's clock. */
const SYSTEM_CLOCK = -1

/** The last time that the engine counts with: 2^52 microseconds, in the year 2112. */
const LAST_TIME_MS = 2 ** 52 / 1_000

/** A limiter's keys on the embedded store: every call is answered at once, on this thread. */
export class MemoryLedger implements Ledger {
  readonly isSync = true
  readonly isDown = false
  readonly origin: object
  readonly #engine: Engine
  readonly #native: EngineLedger
  readonly #clock: (() => number) | undefined
  /** The names of the limits that decisions tell of. */
  readonly #names: readonly string[]
  readonly #policies: number
  /** Doubles per answer of {@link takeMany}. */
  readonly #length: number
  /** What {@link take} asks, and what all else answers into. */
  readonly #asked: Asked
  readonly #told: Float64Array<ArrayBuffer>
  readonly #perform: ReturnType<EngineLedger['bindPerform']>

  /**
   * @param engine - Whose ledger it is.
   * @param origin - What decisions are stamped with. Default: this ledger's own.
   */
  constructor(
    engine: Engine,
    ledger: EngineLedger,
    clock: (() => number) | undefined,
    { limits, policies }: Compound,
    origin: object = {},
  ) {
    this.origin = origin
    this.#engine = engine
    this.#native = ledger
    this.#clock = clock
    this.#names = limits.map(({ name }) => name)
    this.#policies = policies.length
    const length = lengthOf(limits.length)
    this.#told = new Float64Array(length + policies.length * BOOKING_LENGTH)
    this.#length = ledger.isSingle ? ANSWER_LENGTH : length
    this.#asked = askedOf(engine, ledger, this.#length)
    this.#perform = ledger.bindPerform(this.#told)
  }

  take(key: string, cost: number): Decision {
    const { take, which, number, answer } = this.#asked
    // Before the ledger is named: a clock of the user's may ask another one.
    const time = this.#clock === undefined ? SYSTEM_CLOCK : timeOf(this.#clock)
    which[0] = number
    // Every argument costs its conversion: the most frequent call has none but the key.
    if (cost === 1 && time === SYSTEM_CLOCK) {
      take(key)
    } else {
      take(key, cost, time)
    }
    return stamped(decisionAt(answer, 0) ?? this.#severalIn(answer, 0, key), this.origin, key, cost)
  }

  takeBy(keys: Keys, cost: number): Decision {
    const { decision } = this.#ask(OPERATION_CODES.take, cost, keys)
    return stamped(decision, this.origin, keys, cost)
  }

  takeMany(keys: readonly string[], costs: readonly number[]): Answers {
    const answers = new Float64Array(keys.length * this.#length)
    this.#native.takeMany(keys, Float64Array.from(costs), this.#now(), answers)
    return keys.map((key, index) => {
      const start = index * this.#length
      const decision = decisionAt(answers, start) ?? severalAt(answers, start, this.#names)
      return decision === undefined
        ? failureAt(answers, start, key)
        : stamped(decision, this.origin, key, costs[index] as number)
    })
  }

  perform(keys: Keys, operation: Operation): Performed {
    switch (operation.kind) {
      case 'peek':
        return this.#ask(OPERATION_CODES.peek, operation.cost, keys)
      case 'takeUpTo':
      case 'penalize':
        return this.#ask(OPERATION_CODES[operation.kind], operation.units, keys)
      case 'block':
        return this.#ask(OPERATION_CODES.block, operation.lastingUs, keys)
      case 'refund': {
        const { units, atUs, resetAtUs } = operation
        const taken = Float64Array.of(atUs, ...resetAtUs)
        this.#native.refund([...keys.keys], units, taken, this.#now(), this.#told)
        return this.#performedFor(keys)
      }
      case 'unbook':
        this.#native.unbook([...keys.keys], operation.booked, this.#now(), this.#told)
        return this.#performedFor(keys)
      // Its answer is never lost: who asked knows whether it was settled, and nothing is kept here.
      case 'reserve':
        return this.#ask(OPERATION_CODES.take, operation.units, keys)
      case 'settle':
        this.#native.settle([...keys.keys], numbersOfSettle(operation), this.#now(), this.#told)
        return this.#performedFor(keys)
      case 'override': {
        const policies = operation.policies.map((policy) => this.#numbersOf(policy))
        this.#native.overrideNumbers([...keys.keys], policies, operation.lastingUs, this.#now(), this.#told)
        return this.#performedFor(keys)
      }
      default:
        return this.#ask(OPERATION_CODES[operation.kind], 0, keys)
    }
  }

  book(keys: Keys, cost: number, maxWaitUs: number): Booking {
    this.#native.book([...keys.keys], cost, maxWaitUs, this.#now(), this.#told)
    const booking = bookingAt(this.#told, 0, this.#names, this.#policies)
    if (booking === undefined) {
      throw failureAt(this.#told, 0, keys.keys[0])
    }
    return booking
  }

  async ready(): Promise<void> {}

  async close(): Promise<void> {
    this.#native.close()
  }

  #ask(code: number, amount: number, keys: Keys): Performed {
    this.#perform(code, amount, this.#now(), ...keys.keys)
    return this.#performedFor(keys)
  }

  #performedFor({ keys }: Keys): Performed {
    const performed = performedAt(this.#told, 0, this.#names)
    if (performed === undefined) {
      throw failureAt(this.#told, 0, keys[0])
    }
    return performed
  }

  /** The decision on limits with names, if it is none on a single limit. */
  #severalIn(answers: Float64Array, start: number, key: string): Decision {
    const decision = severalAt(answers, start, this.#names)
    if (decision === undefined) {
      throw failureAt(answers, start, key)
    }
    return decision
  }

  #numbersOf(policy: Policy | undefined): EnginePolicy | undefined {
    return policy === undefined ? undefined : compiled(this.#engine, policy, 'override: ')
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
