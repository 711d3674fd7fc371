import type { OperationResult } from '../backends/operation.js'
import type { Duration } from '../input/duration.js'
import { microsOf } from '../input/duration.js'
import { tagOf } from '../input/keys.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../input/options.js'
import type { ConcurrencyPolicy } from '../policies/concurrency.js'
import type { Policy } from '../policies/policy.js'
import type { KeyOf, LimitNames, Policies, PolicySet } from '../policies/policy-set.js'
import type { SlidingCounterPolicy } from '../policies/sliding-counter.js'
import { durationUsOf, type TierOptions } from './call-options.js'
import type { Allowed, Blocked, Decision, Impossible, Refused } from './decision.js'
import { TollgateError } from './error.js'

/** Options of a reservation. */
export interface ReserveOptions<T extends string = never> extends TierOptions<T> {
  /** How long the reservation can be settled: up to a day. Default: a minute. */
  readonly expiresIn?: Duration
}

/** The result of {@link Reserving.reserve}; `allowed` narrows its type. */
export type Reservation<N extends string = string> = Reserved<N> | NotReserved<N>

/** Charged units that are settled when the actual cost is known. */
export interface Reserved<N extends string = string> {
  readonly allowed: true
  /** The decision. `refund` does not accept it: settle the reservation instead. */
  readonly decision: Allowed<N>
  /** The units that were charged. */
  readonly units: number
  /**
   * The time from which the reservation cannot be settled: epoch milliseconds by the deciding
   * clock. {@link renew} moves it.
   */
  readonly expiresAt: number
  /**
   * Settles the reservation. Surplus units are refunded as by `refund`: only units that are still
   * charged, so nothing of a window that has closed. Missing units are charged now as by
   * `penalize`: under each policy at most what is left.
   *
   * Only the first settlement has an effect. This and {@link cancel} may be called again, also
   * after a call whose outcome is unknown (`STORE_TIMEOUT`, or `charged: 'unknown'`).
   *
   * Rejects with `INVALID_COST`, and with the errors of every call on the store.
   *
   * @param actual - A whole number from 0. Default: {@link units}.
   */
  commit(actual?: number): Promise<Settlement>
  /** Refunds all units: {@link commit} of 0. */
  cancel(): Promise<Settlement>
  /**
   * Moves {@link expiresAt} to `expiresIn` from now, unless it is later already: for work that takes
   * longer than expected. The units stay as they are. A reservation that has expired stays so.
   *
   * After a call whose outcome is unknown (`STORE_TIMEOUT`) the reservation expires at the old time
   * or at the new one.
   *
   * Rejects with `INVALID_OPTION`, and with the errors of every call on the store.
   *
   * @param expiresIn - Up to a day. Default: that of `reserve`.
   */
  renew(expiresIn?: Duration): Promise<Renewal>
}

/** Nothing was charged, so there is nothing to settle. */
export interface NotReserved<N extends string = string> {
  readonly allowed: false
  /** The refusal, with its reason and `retryAfterMs`. */
  readonly decision: Refused<N> | Blocked<N> | Impossible<N>
}

/** The result of {@link Reserved.commit}. */
export type Settlement =
  | {
      /** This call settled the reservation. */
      readonly settled: true
      /** The units refunded: under several policies the most under one of them. */
      readonly refunded: number
      /** The units charged in addition: under several policies the most under one of them. */
      readonly charged: number
    }
  | {
      /** This call changed nothing. */
      readonly settled: false
      /**
       * `'expired'`: the call was too late, and the units count as spent. `'settled-before'`: an
       * earlier call settled the reservation, possibly one with an unknown outcome; or, over Redis,
       * the key was reset.
       */
      readonly reason: 'expired' | 'settled-before'
    }

/** The result of {@link Reserved.renew}. */
export type Renewal =
  | {
      readonly renewed: true
      /** The new time from which the reservation cannot be settled. */
      readonly expiresAt: number
    }
  | {
      readonly renewed: false
      /** `'settled-before'`: it was settled, or, over Redis, the key was reset. */
      readonly reason: 'expired' | 'settled-before'
    }

/** The methods of a limiter without a `slidingCounter` policy. */
export interface Reserving<K = string, N extends string = 'default', T extends string = never> {
  /**
   * Takes an estimated number of units, if all of them fit, to be settled later: for work whose
   * cost is known only when it is done.
   *
   * A reservation that is not settled before it expires counts as spent, also after a crash of the
   * process. Its units expire with their window or drain, as all others do.
   *
   * Rejects with `INVALID_OPTION` for a limiter with a `slidingCounter`. If it rejects with
   * `charged: 'unknown'`, the units may have been charged.
   *
   * Over Redis a reset of the key discards its reservations. If the policies count by several key
   * dimensions, this is a reset of the part that the first policy counts by. The embedded store
   * keeps no record of reservations: settling one after a reset acts as a `refund` or `penalize`
   * after the reset.
   *
   * @param key - The caller's key.
   * @param units - The estimate: a whole number from 1.
   *
   * @example
   * const reservation = await limiter.reserve('customer:7', 4000, { expiresIn: '2m' })
   * if (reservation.allowed) {
   *   const { tokens } = await generate()
   *   await reservation.commit(tokens)
   * }
   */
  reserve(key: K, units: number, options?: ReserveOptions<T>): Promise<Reservation<N>>
}

/**
 * {@link Reserving} for the policies of a limiter; nothing if one of them is, or may be, a
 * `slidingCounter` or a `concurrency`.
 */
export type ReservingFor<P extends Policy | Policies, T extends string = never> = [CounterIn<P>] extends [never]
  ? Reserving<KeyOf<P>, LimitNames<P>, T>
  : unknown

type CounterIn<P extends Policy | Policies> = P extends Policy
  ? Extract<P, SlidingCounterPolicy | ConcurrencyPolicy>
  : { [Name in keyof P]: Extract<P[Name], SlidingCounterPolicy | ConcurrencyPolicy> }[keyof P]

/** The number of random bytes that identify a reservation. */
export const HOLD_BYTES = 16

const DEFAULT_EXPIRY: Duration = '1m'

const MAX_EXPIRY_US = 86_400_000_000

/** Checks that all policies support reservations, and checks {@link ReserveOptions}. */
export function reserveOptionsOf(
  { policies }: PolicySet,
  options: unknown,
): { durationUs: number; tag: string | undefined; tier: unknown } {
  if (policies.some(({ policy }) => policy.algorithm === 'slidingCounter')) {
    const rule = 'cannot be used with slidingCounter, which only estimates the count of earlier calls'
    throw new TollgateError('INVALID_OPTION', `reserve ${rule}`)
  }
  const {
    expiresIn = DEFAULT_EXPIRY,
    tag,
    tier,
  } = options === undefined ? {} : optionsOf('INVALID_OPTION', 'reserve', options, ['expiresIn', 'tag', 'tier'])
  return { durationUs: expiryUsOf('reserve', expiresIn), tag: tagOf(tag), tier }
}

function expiryUsOf(method: string, expiresIn: unknown): number {
  const durationUs = durationUsOf(method, 'expiresIn', expiresIn)
  if (durationUs > MAX_EXPIRY_US) {
    throw invalid('INVALID_OPTION', 'expiresIn', "must be at most '1d'", expiresIn)
  }
  return durationUs
}

/** The calls on the store for one reservation. */
interface ReservationCalls {
  settle(actual: number, expiresAtUs: number): OperationResult | Promise<OperationResult>
  renew(durationUs: number, expiresAtUs: number): OperationResult | Promise<OperationResult>
}

const SETTLED_BEFORE: Settlement = Object.freeze({ settled: false, reason: 'settled-before' })

/** The public reservation for a decision. */
export function reservationOf(
  decision: Decision,
  { units, durationUs }: { readonly units: number; readonly durationUs: number },
  calls: ReservationCalls,
): Reservation {
  if (!decision.allowed) {
    return { allowed: false, decision }
  }
  const handle = new ReservationHandle(units, microsOf(decision.at) + durationUs, calls)
  return {
    allowed: true,
    decision,
    units,
    get expiresAt() {
      return handle.expiresAtUs / 1_000
    },
    async commit(actual = units) {
      checkCount(arguments.length, 1, 'commit takes the actual units')
      return handle.settle(wholeNumber('INVALID_COST', 'actual', actual, 0))
    },
    async cancel() {
      checkCount(arguments.length, 0, 'cancel takes no arguments')
      return handle.settle(0)
    },
    async renew(expiresIn) {
      checkCount(arguments.length, 1, 'renew takes the time until the reservation expires')
      return handle.renew(expiresIn === undefined ? durationUs : expiryUsOf('renew', expiresIn))
    },
  }
}

/** A reservation that is settled at most once. */
class ReservationHandle {
  readonly #units: number
  readonly #calls: ReservationCalls
  #expiresAtUs: number
  #isSettled = false
  #inFlight: Promise<Settlement> | undefined

  constructor(units: number, expiresAtUs: number, calls: ReservationCalls) {
    this.#units = units
    this.#expiresAtUs = expiresAtUs
    this.#calls = calls
  }

  get expiresAtUs(): number {
    return this.#expiresAtUs
  }

  async settle(actual: number): Promise<Settlement> {
    // If the earlier attempt fails, this call still has to settle. Without an earlier attempt no turn
    // may pass: another call could start to settle in it.
    while (this.#inFlight !== undefined) {
      await this.#inFlight.catch(() => {})
    }
    if (this.#isSettled) {
      return SETTLED_BEFORE
    }
    const inFlight = this.#send(actual)
    this.#inFlight = inFlight
    try {
      return await inFlight
    } finally {
      this.#inFlight = undefined
    }
  }

  async renew(durationUs: number): Promise<Renewal> {
    // Without a settlement in flight it is sent now, before calls that are made later.
    if (this.#inFlight !== undefined) {
      await this.#inFlight.catch(() => {})
    }
    if (this.#isSettled) {
      return { renewed: false, reason: 'settled-before' }
    }
    const { decision, units } = await this.#calls.renew(durationUs, this.#expiresAtUs)
    const atUs = microsOf(decision.at)
    if (units === 0) {
      return { renewed: false, reason: atUs >= this.#expiresAtUs ? 'expired' : 'settled-before' }
    }
    this.#expiresAtUs = Math.max(this.#expiresAtUs, atUs + durationUs)
    return { renewed: true, expiresAt: this.#expiresAtUs / 1_000 }
  }

  async #send(actual: number): Promise<Settlement> {
    const { decision, units } = await this.#calls.settle(actual, this.#expiresAtUs)
    if (units === 0 && microsOf(decision.at) >= this.#expiresAtUs) {
      return { settled: false, reason: 'expired' }
    }
    this.#isSettled = true
    if (units === 0) {
      return SETTLED_BEFORE
    }
    const moved = units - 1
    return { settled: true, refunded: actual < this.#units ? moved : 0, charged: actual > this.#units ? moved : 0 }
  }
}
