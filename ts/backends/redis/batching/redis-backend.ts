import type * as native from '../../../../native.js'
import type { Decision } from '../../../api/decision.js'
import { Keys } from '../../../input/keys.js'
import type { Compound } from '../../../policies/policy-set.js'
import { compiled } from '../../compiled.js'
import type { Engine } from '../../engine.js'
import { type Answers, answersOf, type Ledger } from '../../limiter-backend.js'
import { type Booking, numbersOfSettle, OPERATION_CODES, type Operation, type Performed } from '../../operation.js'
import { ANSWER_LENGTH, failureOf } from '../../response.js'
import type { Batcher, Queue } from './batcher.js'
import { Pending } from './in-flight.js'
import { BookingAsker, OperationAsker, TakeAsker } from './response-decoder.js'

/** What a ledger needs of its store. */
export interface RedisHome {
  readonly native: Pick<native.RedisStore, 'peek'>
  readonly batcher: Batcher
  readonly engine: Engine
  /** Hears of the ledger's first call that its policies decide. */
  readonly used: () => void
}

/** A limiter's keys in Redis. */
export class RedisLedger implements Ledger {
  readonly isSync = false
  readonly origin = {}
  readonly #home: RedisHome
  readonly #queue: Queue
  readonly #subjects: number
  readonly #pending = new Pending()
  readonly #takes: TakeAsker
  readonly #operations: OperationAsker
  readonly #bookings: BookingAsker
  readonly #answer = new Float64Array(ANSWER_LENGTH)
  readonly #note: (key: string, cost: number) => void
  readonly #tag: string | undefined
  readonly #release: () => void
  #isUsed = false

  /**
   * @param queue - Where the calls wait, with those of other limiters of the same prefix.
   * @param tag - The keys' hash tag, where the call has none of its own.
   * @param release - Called once nobody waits any more.
   */
  constructor(
    home: RedisHome,
    queue: Queue,
    { limits, policies }: Compound,
    tag: string | undefined,
    release: () => void,
  ) {
    const names = limits.map(({ name }) => name)
    this.#home = home
    this.#queue = queue
    this.#subjects = Math.max(...policies.map(({ subject }) => subject)) + 1
    this.#takes = new TakeAsker(this.#pending, names, this.origin)
    this.#operations = new OperationAsker(this.#pending, names)
    this.#bookings = new BookingAsker(this.#pending, names, policies.length)
    this.#note = queue.ledger.bindNote(this.#answer)
    this.#tag = tag
    this.#release = release
  }

  get isDown(): boolean {
    return this.#home.batcher.isDown
  }

  take(key: string, cost: number): Promise<Decision> {
    if (this.#tag !== undefined) {
      return this.takeBy(new Keys([key], undefined), cost)
    }
    const { batcher } = this.#home
    const refusal = batcher.refusal()
    if (refusal !== undefined) {
      return refusal
    }
    if (!this.#isUsed) {
      this.#use()
    }
    this.#note(key, cost)
    const code = this.#answer[0] as number
    if (code !== 0) {
      throw failureOf(code, key)
    }
    return batcher.noted(this.#queue, this.#takes, key, cost)
  }

  takeBy(keys: Keys, cost: number): Promise<Decision> {
    const { batcher } = this.#home
    const refusal = batcher.refusal()
    if (refusal !== undefined) {
      return refusal
    }
    this.#use()
    this.#checked(keys, this.#noted(keys, { kind: 'take', units: cost }))
    return batcher.noted(this.#queue, this.#takes, keys, cost)
  }

  async takeMany(keys: readonly string[], costs: readonly number[]): Promise<Answers> {
    const calls = keys.map(async (key, index) => this.take(key, costs[index] as number))
    return answersOf(await Promise.allSettled(calls))
  }

  // Not async, nor are the others: a failure takes as many turns of the microtask queue whatever was asked, and so
  // what fails together is answered instead in the order in which it was asked.
  perform(keys: Keys, operation: Operation): Promise<Performed> {
    if (operation.kind === 'peek') {
      return this.#peek(keys, operation.cost)
    }
    const { batcher } = this.#home
    const refusal = batcher.refusal()
    if (refusal !== undefined) {
      return refusal
    }
    if (operation.kind === 'takeUpTo' || operation.kind === 'penalize' || operation.kind === 'reserve') {
      this.#use()
    }
    this.#checked(keys, this.#noted(keys, operation))
    return batcher.noted(this.#queue, this.#operations, keys, 0)
  }

  book(keys: Keys, cost: number, maxWaitUs: number): Promise<Booking> {
    const { batcher } = this.#home
    const refusal = batcher.refusal()
    if (refusal !== undefined) {
      return refusal
    }
    this.#use()
    this.#checked(keys, this.#queue.ledger.noteBook(keys.keys, keys.tag ?? this.#tag, cost, maxWaitUs))
    return batcher.noted(this.#queue, this.#bookings, keys, 0)
  }

  async ready(): Promise<void> {
    await this.#peek(new Keys(new Array(this.#subjects).fill('ready'), undefined), 0)
    await this.#home.batcher.health.known()
  }

  async close(): Promise<void> {
    await this.#pending.idle()
    this.#release()
  }

  /** A call is decided by the policies: what an operator changes, or only looks at, is not. */
  #use(): void {
    if (!this.#isUsed) {
      this.#isUsed = true
      this.#home.used()
    }
  }

  /** Notes what is asked with the engine; a failure's code, or 0. */
  #noted(
    { keys, tag = this.#tag }: Keys,
    operation: Exclude<Operation, { kind: 'peek' }> | { readonly kind: 'take'; readonly units: number },
  ): number {
    const { ledger } = this.#queue
    switch (operation.kind) {
      case 'take':
      case 'takeUpTo':
      case 'penalize':
        return ledger.note(keys, tag, OPERATION_CODES[operation.kind], operation.units)
      case 'block':
        return ledger.note(keys, tag, OPERATION_CODES.block, operation.lastingUs)
      case 'refund':
        return ledger.noteRefund(keys, tag, operation.units, Float64Array.of(operation.atUs, ...operation.resetAtUs))
      case 'unbook':
        return ledger.noteUnbook(keys, tag, operation.booked)
      case 'reserve':
        return ledger.noteReserve(keys, tag, operation.hold, operation.units, operation.lastingUs)
      case 'settle':
        return ledger.noteSettle(keys, tag, operation.hold, numbersOfSettle(operation))
      case 'override': {
        const policies = operation.policies.map((policy) => policy && compiled(this.#home.engine, policy, 'override: '))
        return ledger.noteOverride(keys, tag, policies, operation.lastingUs)
      }
      default:
        return ledger.note(keys, tag, OPERATION_CODES[operation.kind], 0)
    }
  }

  /** Asks by itself: a peek is told by a script that writes nothing. */
  #peek(keys: Keys, cost: number): Promise<Performed> {
    const { native, batcher } = this.#home
    const { ledger } = this.#queue
    return batcher.alone(this.#operations, keys, (round, timeoutMs) => {
      this.#checked(keys, native.peek(round, ledger, keys.keys, keys.tag ?? this.#tag, cost, timeoutMs))
    })
  }

  #checked({ keys }: Keys, code: number): void {
    if (code !== 0) {
      throw failureOf(code, keys[0])
    }
  }
}
