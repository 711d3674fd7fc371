import type { Decision } from '../../api/decision.js'
import { DecisionOrigin, withMetadata, withUnits } from '../../api/decision-metadata.js'
import { TollgateError } from '../../api/error.js'
import type { Keys } from '../../input/keys.js'
import { invalid } from '../../input/options.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { compileOverrides, compilePolicySet, openedVariant } from '../compile-policies.js'
import type { Engine, EngineLimiterState } from '../engine.js'
import type { LimiterBackend, TakeManyResults, VariantIndex } from '../limiter-backend.js'
import {
  multiLimitDecisionAt,
  operationResultAt,
  responseLengthOf,
  scheduledReservationAt,
  shapeOf,
} from '../multi-policy.js'
import type { UsePrefix } from '../open-prefixes.js'
import {
  codeOf,
  type EngineOperation,
  numbersOf,
  type Operation,
  type OperationResult,
  SCHEDULED_CHARGE_LENGTH,
  type ScheduledReservation,
} from '../operation.js'
import { warnOfOtherNumbers } from '../other-numbers.js'
import { OPERATION_CODES } from '../protocol.js'
import { decisionAt, errorAt, RESPONSE_LENGTH } from '../response.js'
import { commonCost, type Units } from '../units.js'
import { type TakeCall, takeCallOf } from './take-call.js'

/** Makes the engine read the system clock. */
const SYSTEM_CLOCK = -1

const METERED_TAKE = OPERATION_CODES.take + OPERATION_CODES.metered

/** The last time that the engine supports: 2^52 microseconds, in the year 2112. */
const LAST_TIME_MS = 2 ** 52 / 1_000

/** A limiter's keys on the embedded store. Calls are answered synchronously, on this thread. */
export class MemoryBackend implements LimiterBackend {
  readonly isSync = true
  readonly isDown = false
  readonly origin: DecisionOrigin
  readonly policySet: PolicySet
  readonly #engine: Engine
  readonly #native: EngineLimiterState
  readonly #clock: (() => number) | undefined
  /** The limit names that decisions use. */
  readonly #limitNames: readonly string[]
  readonly #policyCount: number
  /** The doubles of each response of {@link takeMany}. */
  readonly #responseLength: number
  /** The function and buffers of {@link take}. All other operations write into `#response`. */
  readonly #takeCall: TakeCall
  readonly #response: Float64Array<ArrayBuffer>
  readonly #execute: ReturnType<EngineLimiterState['bindExecute']>
  readonly #use: UsePrefix
  readonly #release: () => void

  /**
   * @param origin - Default: that of a new limiter.
   * @param use - Called at once. The function that it returns is called when the backend is closed.
   */
  constructor(
    engine: Engine,
    state: EngineLimiterState,
    clock: (() => number) | undefined,
    policySet: PolicySet,
    origin = new DecisionOrigin(policySet.tier),
    use: UsePrefix = () => () => {},
  ) {
    const { limits, policies } = policySet
    this.origin = origin
    this.policySet = policySet
    this.#engine = engine
    this.#native = state
    this.#clock = clock
    this.#limitNames = limits.map(({ name }) => name)
    this.#policyCount = policies.length
    const length = responseLengthOf(limits.length)
    this.#response = new Float64Array(length + policies.length * SCHEDULED_CHARGE_LENGTH)
    this.#responseLength = state.isSingle ? RESPONSE_LENGTH : length
    this.#takeCall = takeCallOf(engine, state, this.#responseLength)
    this.#execute = state.bindExecute(this.#response)
    this.#use = use
    this.#release = use()
  }

  take(key: string, cost: number): Decision {
    const { take, limiterIndex, index, response } = this.#takeCall
    // Before the limiter is selected: the user's clock may call another limiter.
    const time = this.#clock === undefined ? SYSTEM_CLOCK : checkedTimeOf(this.#clock)
    limiterIndex[0] = index
    // Each argument costs its conversion. The most frequent call passes only the key.
    if (cost === 1 && time === SYSTEM_CLOCK) {
      take(key)
    } else {
      take(key, cost, time)
    }
    const decision = decisionAt(response, 0) ?? multiLimitDecisionAt(response, 0, this.#limitNames)
    if (decision === undefined) {
      throw errorAt(response, 0, key)
    }
    return withMetadata(decision, this.origin, key, cost)
  }

  takeBy(keys: Keys, cost: Units): Decision {
    const common = commonCost(cost)
    const decision =
      typeof common === 'number'
        ? this.#resultOf(keys, { kind: 'take', cost: common }).decision
        : this.#takeByPolicy(keys.keys, common)
    return withUnits(decision, this.origin, keys, cost)
  }

  /** The costs are passed in the response: an array in the call would double its time. */
  #takeByPolicy(keys: Keys['keys'], costs: readonly number[]): Decision {
    // The user's clock may call this limiter.
    const now = this.#now()
    for (let policy = 0; policy < costs.length; policy++) {
      this.#response[policy] = costs[policy] as number
    }
    this.#execute(METERED_TAKE, costs.length, now, ...keys)
    const decision = multiLimitDecisionAt(this.#response, 0, this.#limitNames)
    if (decision === undefined) {
      throw errorAt(this.#response, 0, keys[0])
    }
    return decision
  }

  takeMany(keys: readonly string[], costs: readonly number[]): TakeManyResults {
    const responses = new Float64Array(keys.length * this.#responseLength)
    this.#native.takeMany(keys, Float64Array.from(costs), this.#now(), responses)
    return keys.map((key, index) => {
      const start = index * this.#responseLength
      const decision = decisionAt(responses, start) ?? multiLimitDecisionAt(responses, start, this.#limitNames)
      return decision === undefined
        ? errorAt(responses, start, key)
        : withMetadata(decision, this.origin, key, costs[index] as number)
    })
  }

  execute(keys: Keys, operation: Operation): OperationResult {
    return this.#resultOf(keys, operation)
  }

  schedule(keys: Keys, cost: Units, maxWaitUs: number): ScheduledReservation {
    this.#executeNow(keys, { kind: 'schedule', cost, maxWaitUs })
    const reservation = scheduledReservationAt(this.#response, 0, this.#limitNames, this.#policyCount)
    if (reservation === undefined) {
      throw errorAt(this.#response, 0, keys.keys[0])
    }
    return reservation
  }

  openVariant(policySet: PolicySet, { index, replaces }: VariantIndex): MemoryBackend {
    const policies = compilePolicySet(this.#engine, policySet)
    const state = openedVariant(() => this.#native.openVariant(policies, index, replaces))
    warnOfOtherNumbers(state.prefixWithOtherNumbers)
    const origin = this.origin.ofTier(policySet.tier)
    return new MemoryBackend(this.#engine, state, this.#clock, policySet, origin, this.#use)
  }

  async ready(): Promise<void> {}

  async close(): Promise<void> {
    this.#native.close()
    this.#release()
  }

  #executeNow({ keys }: Keys, operation: EngineOperation): void {
    const code = codeOf(operation)
    const numbers = numbersOf(operation)
    // The user's clock may call this limiter.
    const now = this.#now()
    if (numbers.length < 2 && operation.kind !== 'override') {
      // An array in the call would double its time.
      this.#execute(code, numbers[0] ?? 0, now, ...keys)
    } else {
      const overrides = compileOverrides(this.#engine, operation)
      this.#native.execute(keys, code, Float64Array.from(numbers), overrides, now, this.#response)
    }
  }

  #resultOf(keys: Keys, operation: EngineOperation): OperationResult {
    this.#executeNow(keys, operation)
    const shape = shapeOf(operation, this.#policyCount)
    const result = operationResultAt(this.#response, 0, this.#limitNames, shape)
    if (result === undefined) {
      throw errorAt(this.#response, 0, keys.keys[0])
    }
    return result
  }

  #now(): number {
    return this.#clock === undefined ? SYSTEM_CLOCK : checkedTimeOf(this.#clock)
  }
}

function checkedTimeOf(clock: () => number): number {
  const time = readClock(clock)
  if (typeof time === 'number' && time >= 0 && time <= LAST_TIME_MS) {
    return time
  }
  throw invalid('INVALID_OPTION', 'clock', `must return epoch milliseconds from 0 to ${LAST_TIME_MS}`, time)
}

function readClock(clock: () => unknown): unknown {
  try {
    return clock()
  } catch (cause) {
    throw new TollgateError('INVALID_OPTION', 'clock must return epoch milliseconds, but it threw', { cause })
  }
}
