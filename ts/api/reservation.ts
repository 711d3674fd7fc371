import type { Performed } from '../backends/operation.js'
import type { Duration } from '../input/duration.js'
import { microsOf } from '../input/duration.js'
import { tagOf } from '../input/keys.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../input/options.js'
import type { Policy } from '../policies/policy.js'
import type { Compound, KeyOf, LimitNames, Policies } from '../policies/policy-set.js'
import type { SlidingCounterPolicy } from '../policies/sliding-counter.js'
import { type KeyOptions, lastingOf } from './call-options.js'
import type { Allowed, Blocked, Decision, Impossible, Refused } from './decision.js'
import { TollgateError } from './error.js'

/** How a reservation is to be made. */
export interface ReserveOptions extends KeyOptions {
  /** How long it may be settled: up to a day. Default: a minute. */
  readonly expiresIn?: Duration
}

/** What became of a {@link Reserving.reserve}: `allowed` tells which, and narrows the type. */
export type Reservation<N extends string = string> = Reserved<N> | NotReserved<N>

/** Units that have been charged, and are to be settled when it is known how many they really are. */
export interface Reserved<N extends string = string> {
  readonly allowed: true
  /** The decision; `refund` does not take it, as a reservation is settled. */
  readonly decision: Allowed<N>
  /** The units that were charged. */
  readonly units: number
  /** From then on it cannot be settled, by the deciding clock: epoch milliseconds. */
  readonly expiresAt: number
  /**
   * Settles it. Units that were charged beyond the actual ones are given back as `refund` does: those that are still
   * on the books, so nothing of a window that has closed. Units that are lacking are charged now as `penalize`
   * does: under each policy at most what is left.
   *
   * Only the first time has an effect; this and {@link cancel} may be called again, also if the call before failed and
   * it is unknown what became of it (`STORE_TIMEOUT`, or `charged: 'unknown'`).
   *
   * Rejects with `INVALID_COST`, and as every call on the store.
   *
   * @param actual - A whole number from 0. Default: {@link units}.
   */
  commit(actual?: number): Promise<Settlement>
  /** Gives all units back: {@link commit} of 0. */
  cancel(): Promise<Settlement>
}

/** Nothing was charged: there is nothing to settle. */
export interface NotReserved<N extends string = string> {
  readonly allowed: false
  /** Why not, and how long to wait. */
  readonly decision: Refused<N> | Blocked<N> | Impossible<N>
}

/** What became of a {@link Reserved.commit}. */
export type Settlement =
  | {
      /** This call has settled the reservation. */
      readonly settled: true
      /** The units that came back; under several policies the most under one of them. */
      readonly refunded: number
      /** The units that were charged in addition; under several policies the most under one of them. */
      readonly charged: number
    }
  | {
      /** This call has changed nothing. */
      readonly settled: false
      /**
       * `'expired'`: it is too late, and the units count as spent. `'settled-before'`: an earlier call has settled it,
       * maybe one that failed with its outcome unknown; or, over Redis, the key has been reset.
       */
      readonly reason: 'expired' | 'settled-before'
    }

/** What limiters can do whose policies are all but `slidingCounter`. */
export interface Reserving<K = string, N extends string = 'default'> {
  /**
   * Takes units that are an estimate, if all of them fit, and has them settled later: for work whose cost is known when
   * it is done.
   *
   * A reservation that is not settled before it expires counts as spent: its units leave the books as all others do,
   * with their window or by draining. So it is when the process dies.
   *
   * It rejects with `INVALID_OPTION` for a limiter with a `slidingCounter`. If it rejects with `charged: 'unknown'`,
   * the units may have been charged.
   *
   * A reset of the key forgets its reservations over Redis (under policies that count by several keys: a reset of the
   * part that the first policy counts by). The embedded store keeps no record of them: there, settling one after a reset
   * is like a `refund` or `penalize` after it.
   *
   * @param key - Who is calling.
   * @param units - The estimate: a whole number from 1.
   *
   * @example
   * const reservation = await limiter.reserve('customer:7', 4000, { expiresIn: '2m' })
   * if (reservation.allowed) {
   *   const { tokens } = await generate()
   *   await reservation.commit(tokens)
   * }
   */
  reserve(key: K, units: number, options?: ReserveOptions): Promise<Reservation<N>>
}

/** {@link Reserving} for the policies of a limiter; nothing if one of them is, or may be, a `slidingCounter`. */
export type ReservingFor<P extends Policy | Policies> = [CounterIn<P>] extends [never]
  ? Reserving<KeyOf<P>, LimitNames<P>>
  : unknown

type CounterIn<P extends Policy | Policies> = P extends Policy
  ? Extract<P, SlidingCounterPolicy>
  : { [Name in keyof P]: Extract<P[Name], SlidingCounterPolicy> }[keyof P]

/** How many random bytes set a reservation apart from all others. */
export const HOLD_BYTES = 16

const DEFAULT_EXPIRY: Duration = '1m'

const LONGEST_US = 86_400_000_000

/** Checks that all policies can take reservations, and takes a value as {@link ReserveOptions}. */
export function holdOf({ policies }: Compound, options: unknown): { lastingUs: number; tag: string | undefined } {
  if (policies.some(({ policy }) => policy.algorithm === 'slidingCounter')) {
    const rule = 'cannot be used with slidingCounter, which only estimates what earlier calls still count'
    throw new TollgateError('INVALID_OPTION', `reserve ${rule}`)
  }
  const { expiresIn = DEFAULT_EXPIRY, tag } =
    options === undefined ? {} : optionsOf('INVALID_OPTION', 'reserve', options, ['expiresIn', 'tag'])
  const lastingUs = lastingOf('reserve', 'expiresIn', expiresIn)
  if (lastingUs > LONGEST_US) {
    throw invalid('INVALID_OPTION', 'expiresIn', "must be at most '1d'", expiresIn)
  }
  return { lastingUs, tag: tagOf(tag) }
}

/** Asks the store to settle a reservation that ends at a time. */
type Settle = (actual: number, expiresAtUs: number) => Performed | Promise<Performed>

const SETTLED_BEFORE: Settlement = Object.freeze({ settled: false, reason: 'settled-before' })

/** What a user is given for the decision on a reservation. */
export function reservationOf(
  decision: Decision,
  { units, lastingUs }: { readonly units: number; readonly lastingUs: number },
  settle: Settle,
): Reservation {
  if (!decision.allowed) {
    return { allowed: false, decision }
  }
  const expiresAtUs = microsOf(decision.at) + lastingUs
  const hold = new Hold(units, expiresAtUs, settle)
  return {
    allowed: true,
    decision,
    units,
    expiresAt: expiresAtUs / 1_000,
    async commit(actual = units) {
      checkCount(arguments.length, 1, 'commit takes the actual units')
      return hold.settle(wholeNumber('INVALID_COST', 'actual', actual, 0))
    },
    async cancel() {
      checkCount(arguments.length, 0, 'cancel takes no arguments')
      return hold.settle(0)
    },
  }
}

/** A reservation that is to be settled once. */
class Hold {
  readonly #units: number
  readonly #expiresAtUs: number
  readonly #settle: Settle
  #isSettled = false
  #underWay: Promise<Settlement> | undefined

  constructor(units: number, expiresAtUs: number, settle: Settle) {
    this.#units = units
    this.#expiresAtUs = expiresAtUs
    this.#settle = settle
  }

  async settle(actual: number): Promise<Settlement> {
    // If that fails, this call still has to.
    while (this.#underWay !== undefined) {
      await this.#underWay.catch(() => {})
    }
    if (this.#isSettled) {
      return SETTLED_BEFORE
    }
    const underWay = this.#ask(actual)
    this.#underWay = underWay
    try {
      return await underWay
    } finally {
      this.#underWay = undefined
    }
  }

  async #ask(actual: number): Promise<Settlement> {
    const { decision, units } = await this.#settle(actual, this.#expiresAtUs)
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
