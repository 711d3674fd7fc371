import type { Decision } from '../../api/decision.js'
import type { Keys } from '../../input/keys.js'
import type { Lease } from './lease.js'

/** A call of a {@link CallGroup}. */
export interface GroupedCall {
  resolve(decision: Decision): void
  /** Makes the call anew, in another group if there are still no units. */
  retry(): void
  /** Asks the store for this call alone. */
  askAlone(): void
}

/**
 * Calls on a key that are decided by one answer of the store: the first call is sent to the store,
 * behind a request for the units of the others.
 */
export class CallGroup {
  /** The local time at which it was sent; `undefined` before. */
  sentAt: number | undefined
  /** The calls behind the first one, in order. */
  readonly followers: GroupedCall[] = []

  constructor(
    /** Sends it. */
    readonly send: () => void,
  ) {}
}

/** A key that is called often. Times are in milliseconds of the local clock. */
export class KeyLeases {
  readonly keys: Keys
  /** The group that calls may still join. */
  group: CallGroup | undefined
  /** The least units that any policy had left in the last answer. */
  remaining: number
  /** The requests for units under way. */
  fetching = 0
  /** Increases with each change of the key by this limiter. Units that were charged before are not used. */
  version = 0
  /** The version since the last change that removed the key's counts. */
  resetVersion = 0
  /** With unused units, oldest first. */
  readonly #leases: Lease[] = []
  #periodStart: number
  #count = 0
  #previousCount: number

  /** @param demand - The estimated units per lease. */
  constructor(keys: Keys, demand: number, remaining: number, now: number) {
    this.keys = keys
    this.remaining = remaining
    this.#periodStart = now
    this.#previousCount = demand
  }

  /** The unused units of all leases. */
  get held(): number {
    let units = 0
    for (const { left } of this.#leases) {
      units += left
    }
    return units
  }

  /** Whether it was called, or holds units. */
  isActive(now: number, leaseMs: number): boolean {
    const wasCalled = now - this.#periodStart < 2 * leaseMs
    return wasCalled || this.#leases.length > 0 || this.group !== undefined || this.fetching > 0
  }

  /** Counts the units of a call. */
  count(cost: number, now: number, leaseMs: number): void {
    const age = now - this.#periodStart
    if (age >= leaseMs) {
      this.#previousCount = age < 2 * leaseMs ? this.#count : 0
      this.#count = 0
      this.#periodStart = now
    }
    this.#count += cost
  }

  /**
   * The units to request in advance: those that the key used lately, without those that are held, and
   * at most half of what the store had left.
   */
  get unitsToRequest(): number {
    const demand = Math.max(this.#count, this.#previousCount)
    return Math.max(0, Math.min(demand - this.held, Math.floor(this.remaining / 2)))
  }

  /** Whether at most half of the demand is held. */
  get isLow(): boolean {
    return 2 * this.held <= Math.max(this.#count, this.#previousCount)
  }

  addLease(lease: Lease): void {
    this.#leases.push(lease)
  }

  /** Makes a lease available again to which units have gone back. */
  reopenLease(lease: Lease): void {
    if (!this.#leases.includes(lease)) {
      this.#leases.unshift(lease)
    }
  }

  /** Uses units of one lease, the oldest that has them. Returns `undefined` if none has. */
  use(cost: number, now: number): Lease | undefined {
    const leases = this.#leases
    for (let index = 0; index < leases.length; index++) {
      const lease = leases[index] as Lease
      if (lease.use(cost, now)) {
        if (lease.left === 0) {
          leases.splice(index, 1)
        }
        return lease
      }
    }
    return undefined
  }

  /** Removes and returns the leases that have ended, or all of them. */
  takeEnded(now: number): Lease[] {
    const ended = this.#leases.filter(({ until }) => now >= until)
    if (ended.length > 0) {
      const left = this.#leases.filter((lease) => !ended.includes(lease))
      this.#leases.splice(0, this.#leases.length, ...left)
    }
    return ended
  }
}
