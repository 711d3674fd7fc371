import type { Decision } from '../../api/decision.js'
import type { Keys } from '../../input/keys.js'
import { timers } from '../../platform/timers.js'
import { currentMadeAt, madeAt } from '../redis/batching/made-at.js'
import type { Lease } from './lease.js'

/**
 * The units per lease below which a key is no longer hot. A lease of fewer saves less than its request
 * and the refund of its unused units cost.
 */
const MIN_DEMAND = 3

/** Makes the calls of a group. */
export interface CallMaker {
  /** Asks the store for one call. */
  askStore(key: string | Keys): Decision | Promise<Decision>
  /** Makes a call anew; it may use a lease, or join another group. */
  takeAgain(key: string | Keys): Decision | Promise<Decision>
}

/** A call of cost 1 in a {@link CallGroup}. A class: closures for each call would take longer. */
export class GroupedCall {
  readonly key: string | Keys
  readonly promise: Promise<Decision>
  resolve!: (decision: Decision | Promise<Decision>) => void
  reject!: (error: unknown) => void
  /** When it was made first, by `timers.now`. Its deadline counts from then. */
  readonly since: number
  /** The same, if it has waited before. */
  readonly #firstMadeAt = currentMadeAt()

  constructor(key: string | Keys) {
    this.key = key
    this.since = this.#firstMadeAt ?? timers.now()
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  /** Makes a call to the store with the deadline of this call, which is the first of its group. */
  inItsTime<T>(call: () => T): T {
    return madeAt(this.#firstMadeAt, call)
  }

  /**
   * Makes the call anew, after its group. It waits for a group only once: if an answer takes longer than
   * a lease, each group decides one call.
   */
  retry(maker: CallMaker): void {
    const hasWaited = this.#firstMadeAt !== undefined
    this.#settle(() => (hasWaited ? maker.askStore(this.key) : maker.takeAgain(this.key)))
  }

  askAlone(maker: CallMaker): void {
    this.#settle(() => maker.askStore(this.key))
  }

  #settle(call: () => Decision | Promise<Decision>): void {
    try {
      this.resolve(madeAt(this.since, call))
    } catch (error) {
      this.reject(error)
    }
  }
}

/** A first call that is sent to the store, behind a request for the units of the calls that wait for its answer. */
export class CallGroup {
  /** The local time at which it was sent; `undefined` before. */
  sentAt: number | undefined
  readonly first: GroupedCall
  readonly followers: GroupedCall[] = []
  readonly #send: () => void

  constructor(first: GroupedCall, send: () => void) {
    this.first = first
    this.#send = send
  }

  send(): void {
    if (this.sentAt === undefined) {
      this.#send()
    }
  }
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

  /** Whether there may be unused units. */
  get hasUnits(): boolean {
    return this.#leases.length > 0
  }

  get held(): number {
    let units = 0
    for (const { left } of this.#leases) {
      units += left
    }
    return units
  }

  /** Whether it is still called often, or holds units. */
  isActive(now: number, leaseMs: number): boolean {
    const age = now - this.#periodStart
    const previousCount = age < leaseMs ? this.#previousCount : 0
    const demand = age < 2 * leaseMs ? Math.max(this.#count, previousCount) : 0
    return demand >= MIN_DEMAND || this.#leases.length > 0 || this.group !== undefined || this.fetching > 0
  }

  count(cost: number, now: number, leaseMs: number): void {
    const age = now - this.#periodStart
    if (age >= leaseMs) {
      this.#previousCount = age < 2 * leaseMs ? this.#count : 0
      this.#count = 0
      this.#periodStart = now
    }
    this.#count += cost
  }

  /** The units that the key used lately, without those that are held, and at most half of those in the store. */
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

  /** Uses units of the oldest lease that has them. */
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

  /** Removes and returns the leases that have ended. */
  takeEnded(now: number): Lease[] {
    const ended = this.#leases.filter(({ until }) => now >= until)
    if (ended.length > 0) {
      const left = this.#leases.filter((lease) => !ended.includes(lease))
      this.#leases.splice(0, this.#leases.length, ...left)
    }
    return ended
  }
}
