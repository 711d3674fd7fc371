import { checkCount, optionsOf } from '../input/options.js'
import type { PolicySet } from '../policies/policy-set.js'
import { unsettledError } from './can-settle.js'
import type { Allowed } from './decision.js'
import type { HeldPermit } from './held-permit.js'
import { shownUnits } from './metered-units.js'
import type { Permit } from './permit.js'
import type { ReservationHandle } from './reservation.js'

type Acquired = Extract<Permit<string, never, true>, { readonly allowed: true }>

/** A permit as its holder sees it. A class, because literals with accessors take much longer to make. */
export class StorePermit implements Acquired {
  readonly allowed = true
  readonly decision: Allowed
  readonly #units: number
  readonly #policySet: PolicySet
  readonly #held: HeldPermit
  readonly #onRelease: () => Promise<boolean>
  #released: Promise<boolean> | undefined

  constructor(held: HeldPermit, onRelease: () => Promise<boolean>) {
    const { decision, units, currentBackend } = held.stored
    this.decision = decision
    this.#policySet = currentBackend().policySet
    // The type of the limiter tells whether it is a number.
    this.#units = (typeof units === 'number' ? units : shownUnits(this.#policySet.meters, units)) as number
    this.#held = held
    this.#onRelease = onRelease
  }

  get units(): number {
    return this.#held.reservation?.units ?? this.#units
  }

  get signal() {
    return this.#held.signal
  }

  get id(): string {
    return this.#held.reservation?.id as string
  }

  get expiresAt(): number {
    return this.#held.reservation?.expiresAt as number
  }

  async commit(actual?: unknown): ReturnType<Acquired['commit']> {
    checkCount(arguments.length, 1, 'commit takes the actual units')
    return this.#reservation('commit').settle(actual)
  }

  async cancel(): ReturnType<Acquired['cancel']> {
    checkCount(arguments.length, 0, 'cancel takes no arguments')
    return this.#reservation('cancel').cancel()
  }

  async extend(units: unknown, options?: unknown): ReturnType<Acquired['extend']> {
    checkCount(arguments.length, 2, 'extend takes units and an object of options')
    const { ttl } = optionsOf('INVALID_OPTION', 'extend', options ?? {}, ['ttl'])
    return this.#reservation('extend').extend(units, ttl)
  }

  async renew(ttl?: unknown): ReturnType<Acquired['renew']> {
    checkCount(arguments.length, 1, 'renew takes the time until the reservation expires')
    return this.#reservation('renew').renew(ttl)
  }

  release(): Promise<boolean> {
    if (this.#held.reservation !== undefined) {
      return this.#onRelease()
    }
    this.#released ??= this.#onRelease()
    return this.#released
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => false)
  }

  #reservation(method: string): ReservationHandle {
    const { reservation } = this.#held
    if (reservation === undefined) {
      throw unsettledError(method, this.#policySet)
    }
    return reservation
  }
}
