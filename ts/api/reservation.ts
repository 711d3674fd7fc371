import type {
  CallId,
  Charge,
  ExtendOperation,
  KnownHold,
  OperationResult,
  RenewOperation,
  SettleOperation,
} from '../backends/operation.js'
import { HOLD_TIMES } from '../backends/protocol.js'
import { isNone, sumOf, type Units } from '../backends/units.js'
import type { Duration } from '../input/duration.js'
import { microsOf } from '../input/duration.js'
import { tagOf } from '../input/keys.js'
import { checkCount, invalid, optionsOf } from '../input/options.js'
import type { SomeUnitsBy, UnitsBy } from '../policies/cost-of.js'
import type { MeterSet } from '../policies/meter.js'
import type { PolicySet } from '../policies/policy-set.js'
import { callIdOf } from './call-id.js'
import { durationUsOf, unitsOf } from './call-options.js'
import { canSettle, unsettledError } from './can-settle.js'
import type { Decision } from './decision.js'
import { mostByMeter, plainUnitsOf, shownUnits, someUnitsOf } from './metered-units.js'
import { encodeReservation, type KnownReservation, MAX_CHARGES } from './reservation-id.js'

/**
 * Options of `reserve`. With tiers they also have the `tier`.
 *
 * @example
 * await limiter.reserve('customer:7', 4_000, { ttl: '2m' })
 */
export interface ReserveOptions {
  /** How long the reservation can be settled: up to a day. Default: a minute. */
  readonly ttl?: Duration
  /** As in {@link TakeOptions}. */
  readonly tag?: string
  /**
   * As in {@link TakeOptions}: `reserve` with the same `id` on the same key returns the same reservation, in any
   * process. `take` and `reserve` have separate ids.
   */
  readonly id?: string
  /** How long the `id` is remembered: from `ttl` up to a day. Default: ten minutes, or `ttl` if that is longer. */
  readonly idTtl?: Duration
}

/**
 * The result of `reserve`; `allowed` narrows its type.
 *
 * @typeParam N - The names of the limits: `'default'` for a single policy.
 * @typeParam M - The meters of the policies; `never` without any. With meters all units are objects by meter.
 *
 * @example
 * const reservation = await limiter.reserve('customer:7', 4_000)
 * if (reservation.allowed) await reservation.commit(3_100)
 */
export type Reservation<N extends string = string, M extends string = never> =
  | {
      /** `true`: the units are charged, and are settled when the actual cost is known. */
      readonly allowed: true
      /** The decision. `refund` does not accept it: settle the reservation instead. */
      readonly decision: Extract<Decision<N>, { readonly allowed: true }>
      /**
       * Identifies the reservation for `settle` of a limiter in any process: letters, digits, `-` and `_`. It
       * contains the key in readable form. Settle only ids from a source that you trust: a changed one can refund
       * the units to another key.
       */
      readonly id: string
      /** The units that were charged. `extend` adds to them. */
      readonly units: UnitsBy<M>
      /** When it ends: epoch milliseconds by the deciding clock. `renew` and `extend` move it. */
      readonly expiresAt: number
      /**
       * Settles the reservation: refunds surplus units as `refund` does, or charges missing ones. Missing units that do
       * not fit are owed, up to `maxOwed` of the policy: later calls wait until they are paid. Up to an hour after
       * `expiresAt` missing units are charged, too, and surplus units count as spent. Only the first settlement has an
       * effect, so it may be repeated after an unknown outcome.
       *
       * Rejects with `INVALID_COST`, and with the errors of every call on the store.
       *
       * @param actual - A whole number from 0. Default: `units`, also of a meter that it leaves out.
       */
      commit(actual?: SomeUnitsBy<M>): Promise<Settlement<M>>
      /** Refunds all units: `commit(0)`. */
      cancel(): Promise<Settlement<M>>
      /**
       * Takes further units, if all of them fit, adds them to `units` and moves `expiresAt`.
       * A refusal changes nothing. Only the units of the latest 16 charges can be refunded.
       *
       * Rejects with `INVALID_COST`, `INVALID_OPTION`, and with the errors of every call on the store.
       *
       * @param units - A whole number from 1. Of a meter that it leaves out: 0.
       * @param options - `ttl` is the time from now until the reservation expires: up to a day. Default: that
       * of `reserve`.
       */
      extend(units: SomeUnitsBy<M>, options?: Pick<ReserveOptions, 'ttl'>): Promise<Extension<N, M>>
      /**
       * Moves `expiresAt` to `ttl` from now, unless it is later already. A reservation that has
       * expired stays so.
       *
       * Rejects with `INVALID_OPTION`, and with the errors of every call on the store.
       *
       * @param ttl - Up to a day. Default: that of `reserve`.
       */
      renew(ttl?: Duration): Promise<Renewal>
    }
  | {
      /** `false`: nothing was charged, so there is nothing to settle. */
      readonly allowed: false
      /** The refusal, with its reason and `retryAfterMs`. */
      readonly decision: Extract<Decision<N>, { readonly allowed: false }>
    }

// These two are not exported, so that the types that a program infers do not name them.

/** The result of `extend`. @inline */
type Extension<N extends string = string, M extends string = never> =
  | {
      readonly extended: true
      readonly decision: Extract<Decision<N>, { readonly allowed: true }>
      /** The units of the reservation now. */
      readonly units: UnitsBy<M>
      /** The new time from which the reservation cannot be settled. */
      readonly expiresAt: number
    }
  | {
      readonly extended: false
      /** The units do not fit, or the key is blocked. The reservation stays as it was. */
      readonly reason: 'refused'
      readonly decision: Extract<Decision<N>, { readonly allowed: false }>
    }
  | {
      readonly extended: false
      /** As for `commit`. */
      readonly reason: 'expired' | 'settled-before'
    }

/** The result of `renew`. @inline */
type Renewal =
  | {
      readonly renewed: true
      /** The new time from which the reservation cannot be settled. */
      readonly expiresAt: number
    }
  | {
      readonly renewed: false
      /** `'settled-before'`: it was settled, or the key was reset. */
      readonly reason: 'expired' | 'settled-before'
    }

/**
 * The result of `commit`, `cancel` and `settle`.
 *
 * @typeParam M - The meters of the policies; `never` without any. With meters all units are objects by meter.
 *
 * @example
 * const settlement: Settlement = await limiter.settle(id, 3_100)
 * if (!settlement.settled) console.log(settlement.reason)
 */
export type Settlement<M extends string = never> =
  | {
      /** This call settled the reservation. */
      readonly settled: true
      /** The units refunded: under several policies the most under one of them. */
      readonly refunded: UnitsBy<M>
      /** The units charged in addition, with the owed ones: under several policies the most under one of them. */
      readonly charged: UnitsBy<M>
      /**
       * How many of the `charged` units did not fit and are owed: later calls wait until they are paid. Under several
       * policies the most under one of them.
       */
      readonly owed: UnitsBy<M>
      /** The units that were used and are neither charged nor owed: they exceed `maxOwed`. */
      readonly shortfall: UnitsBy<M>
      /** Whether the reservation had expired: then its surplus units count as spent. */
      readonly late: boolean
    }
  | {
      /** This call changed nothing. */
      readonly settled: false
      /**
       * `'expired'`: more than an hour too late, the units count as spent. `'settled-before'`: settled earlier, or the
       * key was reset.
       */
      readonly reason: 'expired' | 'settled-before'
    }

const DEFAULT_EXPIRY: Duration = '1m'

export const MAX_EXPIRY_US = 86_400_000_000

export function checkReservable(method: string, policySet: PolicySet): void {
  if (!canSettle(policySet)) {
    throw unsettledError(method, policySet)
  }
}

/** Checks {@link ReserveOptions}. */
export function reserveOptionsOf(options: unknown): {
  durationUs: number
  tag: string | undefined
  tier: unknown
  callId: CallId | undefined
} {
  const {
    ttl = DEFAULT_EXPIRY,
    tag,
    tier,
    id,
    idTtl,
  } = options === undefined
    ? {}
    : optionsOf('INVALID_OPTION', 'reserve', options, ['ttl', 'tag', 'tier', 'id', 'idTtl'])
  const durationUs = expiryUsOf('reserve', ttl)
  return { durationUs, tag: tagOf(tag), tier, callId: callIdOf('reserve', id, idTtl, durationUs) }
}

function expiryUsOf(method: string, ttl: unknown): number {
  const durationUs = durationUsOf(method, 'ttl', ttl)
  if (durationUs > MAX_EXPIRY_US) {
    throw invalid('INVALID_OPTION', 'ttl', "must be at most '1d'", ttl)
  }
  return durationUs
}

export type HoldCall = (
  operation: ExtendOperation | SettleOperation | RenewOperation,
) => OperationResult | Promise<OperationResult>

/** Settles a reservation. @param actual - Default: the units of the reservation. */
export async function settleReservation(
  { hold, source, heldUnits, expiresAtUs, charges }: KnownReservation,
  actual: unknown,
  call: HoldCall,
  meters: MeterSet | undefined,
): Promise<Settlement> {
  const used = actual === undefined ? heldUnits : actualUnitsOf(meters, actual, heldUnits)
  const {
    decision,
    units,
    held,
    owed = 0,
    isLate: late = false,
    moved = [],
  } = await call({
    kind: 'settle',
    hold,
    source,
    heldUnits,
    expiresAtUs,
    actual: used,
    charges,
  })
  if (held === undefined || isNone(held)) {
    return { settled: false, reason: reasonAt(decision, expiresAtUs + HOLD_TIMES.late) }
  }
  if (typeof used !== 'number') {
    const units = { held: held as readonly number[], owed: owed as readonly number[], moved }
    return { ...meteredSettlement(meters as MeterSet, used, units, source === 'none'), late }
  }
  const plainHeld = held as number
  const [refunded, charged] = used < plainHeld ? [units, 0] : [0, units]
  // Without a store nothing was charged, and nothing is lacking.
  const shortfall = source === 'none' ? 0 : Math.max(0, used - plainHeld - charged)
  return { settled: true, refunded, charged, owed: owed as number, shortfall, late }
}

function actualUnitsOf(meters: MeterSet | undefined, actual: unknown, held: Units): Units {
  return typeof held === 'number'
    ? plainUnitsOf('actual', actual, 0)
    : someUnitsOf(meters as MeterSet, 'actual', actual, held)
}

interface MeteredUnits {
  readonly held: readonly number[]
  readonly owed: readonly number[]
  /** The units that were refunded or charged. */
  readonly moved: readonly number[]
}

/** The units of a settlement by meter, from those by policy. */
function meteredSettlement(
  meters: MeterSet,
  used: readonly number[],
  { held, owed, moved }: MeteredUnits,
  isUncounted: boolean,
): Omit<Extract<Settlement, { settled: true }>, 'late'> {
  const surplus = used.map((units, policy) => units - (held[policy] as number))
  const charged = surplus.map((units, policy) => (units > 0 ? (moved[policy] ?? 0) : 0))
  const by = (units: readonly number[]) => mostByMeter(meters, units) as never
  return {
    settled: true,
    refunded: by(surplus.map((units, policy) => (units < 0 ? (moved[policy] ?? 0) : 0))),
    charged: by(charged),
    owed: by(used.map((_, policy) => owed[policy] ?? 0)),
    shortfall: by(surplus.map((units, policy) => (isUncounted ? 0 : Math.max(0, units - (charged[policy] as number))))),
  }
}

function reasonAt({ at }: Decision, expiresAtUs: number): 'expired' | 'settled-before' {
  return microsOf(at) >= expiresAtUs ? 'expired' : 'settled-before'
}

const SETTLED_BEFORE: Settlement = Object.freeze({ settled: false, reason: 'settled-before' })

const NOT_RENEWED: Renewal = Object.freeze({ renewed: false, reason: 'settled-before' })

const NOT_EXTENDED: Extension = Object.freeze({ extended: false, reason: 'settled-before' })

export function reservationOf(
  decision: Decision,
  reservation: KnownReservation,
  durationUs: number,
  callbacks: ReservationCallbacks,
): Reservation {
  if (!decision.allowed) {
    return { allowed: false, decision }
  }
  const handle = new ReservationHandle(reservation, durationUs, callbacks)
  return {
    allowed: true,
    decision,
    get id() {
      return handle.id
    },
    get units() {
      return handle.units
    },
    get expiresAt() {
      return handle.expiresAt
    },
    async commit(actual) {
      checkCount(arguments.length, 1, 'commit takes the actual units')
      return handle.settle(actual)
    },
    async cancel() {
      checkCount(arguments.length, 0, 'cancel takes no arguments')
      return handle.cancel()
    },
    async extend(units, options) {
      checkCount(arguments.length, 2, 'extend takes units and an object of options')
      const { ttl } = optionsOf('INVALID_OPTION', 'extend', options ?? {}, ['ttl'])
      return handle.extend(units, ttl)
    },
    async renew(ttl) {
      checkCount(arguments.length, 1, 'renew takes the time until the reservation expires')
      return handle.renew(ttl)
    },
  }
}

export interface ReservationCallbacks {
  readonly call: HoldCall
  readonly chargeOf: (decision: Decision, units: Units) => Charge
  readonly meters: MeterSet | undefined
}

/** A reservation that is settled at most once. Its calls take effect in the order of the calls. */
export class ReservationHandle {
  readonly #callbacks: ReservationCallbacks
  readonly #durationUs: number
  #reservation: KnownReservation
  #isSettled = false
  /** The last call, if it has no answer yet. */
  #last: Promise<unknown> | undefined

  constructor(reservation: KnownReservation, durationUs: number, callbacks: ReservationCallbacks) {
    this.#reservation = reservation
    this.#durationUs = durationUs
    this.#callbacks = callbacks
  }

  get id(): string {
    return encodeReservation(this.#reservation)
  }

  get expiresAt(): number {
    return this.#reservation.expiresAtUs / 1_000
  }

  get units(): number {
    // The type of the limiter tells whether it is a number.
    return shownUnits(this.#callbacks.meters, this.#reservation.heldUnits) as number
  }

  cancel(): Promise<Settlement> {
    const { meters } = this.#callbacks
    return this.settle(meters === undefined ? 0 : Object.fromEntries(meters.names.map((name) => [name, 0])))
  }

  settle(actual: unknown): Promise<Settlement> {
    return this.#inTurn(async () => {
      if (this.#isSettled) {
        return SETTLED_BEFORE
      }
      const { call, meters } = this.#callbacks
      const settlement = await settleReservation(this.#reservation, actual, call, meters)
      this.#isSettled = settlement.settled || settlement.reason === 'settled-before'
      return settlement
    })
  }

  async extend(given: unknown, ttl: unknown): Promise<Extension> {
    const { meters } = this.#callbacks
    const units = meters === undefined ? unitsOf(given) : someUnitsOf(meters, 'units', given)
    const durationUs = this.#durationFor('extend', ttl)
    return this.#inTurn(() => (this.#isSettled ? NOT_EXTENDED : this.#extend(units, durationUs)))
  }

  async renew(ttl: unknown): Promise<Renewal> {
    const durationUs = this.#durationFor('renew', ttl)
    return this.#inTurn(() => (this.#isSettled ? NOT_RENEWED : this.#renew(durationUs)))
  }

  /** Renews the permit of the reservation, and moves its end. Returns whether the permit was held. */
  keepPermit(durationUs: number): Promise<boolean> {
    return this.#inTurn(async () => {
      if (this.#isSettled) {
        return true
      }
      const { decision, units } = await this.#callbacks.call({ kind: 'renew', ...this.#known, durationUs })
      if (units === 1 || units === 3) {
        this.#setExpiry(microsOf(decision.at) + durationUs)
      }
      return units === 1 || units === 2
    })
  }

  async #renew(durationUs: number): Promise<Renewal> {
    const { expiresAtUs } = this.#reservation
    const { decision, units } = await this.#callbacks.call({ kind: 'renew', ...this.#known, durationUs })
    if (units === 0 || units === 2) {
      return { renewed: false, reason: reasonAt(decision, expiresAtUs) }
    }
    this.#setExpiry(microsOf(decision.at) + durationUs)
    return { renewed: true, expiresAt: this.expiresAt }
  }

  async #extend(units: Units, durationUs: number): Promise<Extension> {
    const { expiresAtUs } = this.#reservation
    const result = await this.#callbacks.call({ kind: 'extend', ...this.#known, units, durationUs })
    const { decision, held } = result
    if (held !== undefined && isNone(held)) {
      return { extended: false, reason: reasonAt(decision, expiresAtUs) }
    }
    if (!decision.allowed) {
      return { extended: false, reason: 'refused', decision }
    }
    const { heldUnits, charges } = this.#reservation
    this.#reservation = {
      ...this.#reservation,
      heldUnits: sumOf(heldUnits, units),
      charges: [...charges, this.#callbacks.chargeOf(decision, units)].slice(-MAX_CHARGES),
    }
    this.#setExpiry(microsOf(decision.at) + durationUs)
    return { extended: true, decision, units: this.units, expiresAt: this.expiresAt }
  }

  get #known(): KnownHold {
    const { hold, source, heldUnits, expiresAtUs } = this.#reservation
    return { hold, source, heldUnits, expiresAtUs }
  }

  /** Sends a call when the one before it has its answer: a settlement has to know all charges. */
  #inTurn<T>(send: () => T | Promise<T>): Promise<T> {
    const sending = async () => send()
    const answer = this.#last === undefined ? sending() : this.#last.then(sending, sending)
    this.#last = answer
    const onEnd = () => {
      this.#last = this.#last === answer ? undefined : this.#last
    }
    answer.then(onEnd, onEnd)
    return answer
  }

  #durationFor(method: string, ttl: unknown): number {
    return ttl === undefined ? this.#durationUs : expiryUsOf(method, ttl)
  }

  #setExpiry(expiresAtUs: number): void {
    const latest = Math.max(this.#reservation.expiresAtUs, expiresAtUs)
    this.#reservation = { ...this.#reservation, expiresAtUs: latest }
  }
}
