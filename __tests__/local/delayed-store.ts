import fc from 'fast-check'
import type { Decision } from '../../ts/api/decision.js'
import type { DecisionOrigin } from '../../ts/api/decision-metadata.js'
import type { LimiterBackend, TakeManyResults, VariantIndex } from '../../ts/backends/limiter-backend.js'
import type { Operation, OperationResult, ScheduledReservation } from '../../ts/backends/operation.js'
import type { Units } from '../../ts/backends/units.js'
import type { Keys } from '../../ts/input/keys.js'
import type { PolicySet } from '../../ts/policies/policy-set.js'
import type { VirtualTime } from './virtual-time.js'

/** The delay of `millis` for each call and answer, in the form that random delays have. */
export function constantDelays(millis: number): fc.Stream<number> {
  return fc.stream(repeated(millis))
}

function* repeated<T>(value: T): Generator<T> {
  while (true) {
    yield value
  }
}

/** An embedded store behind a delay: calls arrive in order, and so do answers. */
export class DelayedStore implements LimiterBackend {
  readonly isSync = false
  readonly isDown = false
  readonly backend: LimiterBackend
  readonly #time: VirtualTime
  readonly #delayMs: () => number
  #lastArrival = 0
  #lastAnswer = 0
  #isCut = false
  calls = 0

  /** @param backend - The embedded store, by the same clock. */
  constructor(backend: LimiterBackend, time: VirtualTime, delayMs: () => number) {
    this.backend = backend
    this.#time = time
    this.#delayMs = delayMs
  }

  get origin(): DecisionOrigin {
    return this.backend.origin
  }

  get policySet(): PolicySet {
    return this.backend.policySet
  }

  take(key: string, cost: number): Promise<Decision> {
    return this.#later(() => this.backend.take(key, cost) as Decision)
  }

  takeBy(keys: Keys, cost: Units): Promise<Decision> {
    return this.#later(() => this.backend.takeBy(keys, cost) as Decision)
  }

  takeMany(): TakeManyResults {
    throw new Error('the local backend takes each key separately')
  }

  execute(keys: Keys, operation: Operation): Promise<OperationResult> {
    return this.#later(() => this.backend.execute(keys, operation) as OperationResult)
  }

  schedule(keys: Keys, cost: Units, maxWaitUs: number): Promise<ScheduledReservation> {
    return this.#later(() => this.backend.schedule(keys, cost, maxWaitUs) as ScheduledReservation)
  }

  openVariant(policySet: PolicySet, variant: VariantIndex): DelayedStore {
    return new DelayedStore(this.backend.openVariant(policySet, variant), this.#time, this.#delayMs)
  }

  async ready(): Promise<void> {}

  async close(): Promise<void> {}

  /** Holds the answers back for a time: the process does not run. */
  freeze(millis: number): void {
    this.#lastAnswer = Math.max(this.#lastAnswer, this.#time.now) + millis
  }

  /** Delivers no further call and no further answer: the process has ended. */
  cut(): void {
    this.#isCut = true
  }

  #later<T>(call: () => T): Promise<T> {
    this.calls++
    return new Promise((resolve, reject) => {
      this.#lastArrival = Math.max(this.#lastArrival, this.#time.now + this.#delayMs())
      this.#deliver(this.#lastArrival, () => {
        let answer: T
        try {
          answer = call()
        } catch (error) {
          reject(error)
          return
        }
        this.#lastAnswer = Math.max(this.#lastAnswer, this.#time.now + this.#delayMs())
        this.#deliver(this.#lastAnswer, () => resolve(answer))
      })
    })
  }

  #deliver(at: number, run: () => void): void {
    this.#time.schedule(at, () => this.#isCut || run())
  }
}
