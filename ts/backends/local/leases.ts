import type { Decision, PolicyNumbers } from '../../api/decision.js'
import { withMetadata } from '../../api/decision-metadata.js'
import { Keys } from '../../input/keys.js'
import { timers } from '../../platform/timers.js'
import type { PolicySet } from '../../policies/policy-set.js'
import type { LeasesHeld, LimiterBackend, Store } from '../limiter-backend.js'
import type { OperationResult, RefundOperation } from '../operation.js'
import { currentMadeAt, madeAt } from '../redis/batching/made-at.js'
import { scheduler } from '../redis/batching/scheduler.js'
import { idOf as idOfKey } from './bounded-map.js'
import { CallGroup, type CallMaker, GroupedCall, KeyLeases } from './key-leases.js'
import { Lease, type LeasedKeys, sameRefusal } from './lease.js'

/** One of this many calls that ask the store is sampled, on average. */
const SAMPLING = 8

/** The samples of a key within a lease that make it hot. With 2, random samples made many cold keys hot. */
const HOT_SAMPLES = 3

/** The time in which calls join a sent group. Durations in milliseconds are as inexact. */
const JOIN_MS = 1

/**
 * Leases: units of hot keys that the store has charged, for calls of this process.
 *
 * A key becomes hot when a few calls within the time of a lease have asked the store. When half of a lease is
 * used, the next one is requested. If nothing is left, calls of cost 1 form a group: the first asks the store
 * as usual, behind one request for the units of all others. When that call is refused, those for which there
 * are no units are refused with it: the store decided when nothing was left.
 *
 * Units that are not used in time go back. If that fails, they stay charged: fewer calls are
 * admitted, never more.
 */
export class Leases {
  readonly #store: LimiterBackend
  readonly #policySet: PolicySet
  readonly #leaseMs: number
  readonly #maxKeys: number
  readonly #now: () => number
  readonly #holders: Store['leases']
  readonly #onChange: (keys: Keys) => void
  readonly #hotKeys = new Map<string, KeyLeases>()
  readonly #withGroup = new Set<KeyLeases>()
  readonly #samples = new Map<string, number>()
  #samplesSince = Number.NEGATIVE_INFINITY
  #untilSample = SAMPLING
  #random = 1
  #sweep: ReturnType<typeof timers.setTimeout> | undefined
  #isClosed = false
  readonly #pending = new Set<Promise<unknown>>()

  /** @param onChange - Is called when units of a key were taken from the store or given back. */
  constructor(
    store: LimiterBackend,
    policySet: PolicySet,
    leaseMs: number,
    maxKeys: number,
    now: () => number,
    holders: Store['leases'],
    onChange: (keys: Keys) => void,
  ) {
    this.#holders = holders
    this.#onChange = onChange
    holders.add(this)
    this.#store = store
    this.#policySet = policySet
    this.#leaseMs = leaseMs
    this.#maxKeys = maxKeys
    this.#now = now
  }

  get held(): LeasesHeld {
    let [keys, units] = [0, 0]
    for (const hotKey of this.#hotKeys.values()) {
      const { held } = hotKey
      keys += held > 0 ? 1 : 0
      units += held
    }
    return { keys, units }
  }

  find(key: string): KeyLeases | undefined {
    return this.#hotKeys.size === 0 ? undefined : this.#hotKeys.get(idOfKey(key, 0, undefined))
  }

  findBy(keys: Keys): KeyLeases | undefined {
    return this.#hotKeys.size === 0 ? undefined : this.#hotKeys.get(idOf(keys))
  }

  use(hotKey: KeyLeases, cost: number): Decision | undefined {
    if (!hotKey.hasUnits) {
      return undefined
    }
    const now = this.#now()
    const lease = this.#useLease(hotKey, cost, now)
    return lease && withMetadata(lease.decisionAt(now), this.#store.origin, lease.keys, cost)
  }

  useUpTo(hotKey: KeyLeases, units: number): OperationResult | undefined {
    const now = this.#now()
    const lease = this.#useLease(hotKey, units, now)
    return lease && { decision: lease.decisionAt(now), units, keys: lease.keys }
  }

  ask(hotKey: KeyLeases, key: string | Keys, cost: number, maker: CallMaker): Decision | Promise<Decision> {
    const now = this.#now()
    hotKey.count(cost, now, this.#leaseMs)
    const { group } = hotKey
    const isOpen = group !== undefined && (group.sentAt === undefined || now - group.sentAt < JOIN_MS)
    // A call that has waited may have an earlier deadline than the first call of the group.
    if (isOpen && group.first.since <= (currentMadeAt() ?? Number.POSITIVE_INFINITY)) {
      const follower = new GroupedCall(key)
      group.followers.push(follower)
      return follower.promise
    }
    const first = new GroupedCall(key)
    this.sendGroup(hotKey)
    this.#beginGroup(hotKey, first, maker)
    return first.promise
  }

  /** Whether each call that finds no leased units asks the store for itself. */
  areAlone(cost: number): boolean {
    return cost > 1 || !scheduler.hasBackpressure || this.#store.isDown
  }

  /** Like {@link ask}, for a call that asks alone. */
  askAlone(hotKey: KeyLeases, cost: number, ask: () => Decision | Promise<Decision>): Decision | Promise<Decision> {
    hotKey.count(cost, this.#now(), this.#leaseMs)
    this.sendGroup(hotKey)
    const answer = ask()
    if (hotKey.fetching === 0 && !this.#store.isDown) {
      this.#renew(hotKey)
    }
    return answer instanceof Promise
      ? answer.then((decision) => {
          learnRemaining(hotKey, decision)
          return decision
        })
      : answer
  }

  sendGroup(hotKey: KeyLeases): void {
    hotKey.group?.send()
  }

  sample(keys: string | Keys, answer: Decision | Promise<Decision>): void {
    this.#untilSample--
    if (this.#untilSample > 0 || this.#isClosed) {
      return
    }
    // Xorshift: calls in a fixed order of keys must not be sampled at the same key each time.
    this.#random ^= this.#random << 13
    this.#random ^= this.#random >>> 17
    this.#random ^= this.#random << 5
    this.#untilSample = 1 + ((this.#random >>> 0) % (2 * SAMPLING - 1))
    if (answer instanceof Promise) {
      const now = this.#now()
      answer.then(
        (decision) => this.#recordSample(typeof keys === 'string' ? new Keys([keys], undefined) : keys, decision, now),
        () => {},
      )
    }
  }

  /** Sends the waiting calls of keys before an operation that keeps their leases. */
  sendGroupsOf(keys: Keys): void {
    for (const hotKey of this.#withGroup) {
      if (hasAnyOf(hotKey, keys)) {
        this.sendGroup(hotKey)
      }
    }
  }

  /** Closes the groups of keys before units go back to the store. */
  closeGroupsOf(keys: Keys): void {
    for (const hotKey of this.#withGroup) {
      if (hasAnyOf(hotKey, keys)) {
        this.#closeGroup(hotKey)
      }
    }
  }

  /** Ends the leases of keys before a change. A reset removes the counts: then nothing goes back. */
  end(keys: Keys, isReset: boolean): void {
    if (this.#hotKeys.size === 0) {
      return
    }
    for (const hotKey of this.#hotKeys.values()) {
      if (!hasAnyOf(hotKey, keys)) {
        continue
      }
      this.#closeGroup(hotKey)
      hotKey.version++
      if (isReset) {
        hotKey.resetVersion = hotKey.version
      }
      for (const lease of hotKey.takeEnded(Number.POSITIVE_INFINITY)) {
        this.#endLease(hotKey, lease)
      }
    }
  }

  refund({ lease }: LeasedKeys, units: number): OperationResult | Promise<OperationResult> {
    const now = this.#now()
    const hotKey = this.#hotKeys.get(idOf(lease.keys))
    if (hotKey === undefined || lease.version !== hotKey.version || now >= lease.until) {
      return this.#store.execute(lease.keys, lease.refundOf(units))
    }
    lease.left += units
    hotKey.reopenLease(lease)
    return { decision: lease.decisionAt(now), units }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    timers.clearTimeout(this.#sweep)
    for (const hotKey of this.#hotKeys.values()) {
      this.sendGroup(hotKey)
      for (const lease of hotKey.takeEnded(Number.POSITIVE_INFINITY)) {
        this.#endLease(hotKey, lease)
      }
    }
    while (this.#pending.size > 0) {
      await Promise.all(this.#pending)
    }
    this.#holders.delete(this)
  }

  #recordSample(keys: Keys, decision: Decision, now: number): void {
    if (now - this.#samplesSince >= this.#leaseMs || this.#samples.size >= this.#maxKeys) {
      this.#samplesSince = now
      this.#samples.clear()
    }
    const id = idOf(keys)
    const samples = (this.#samples.get(id) ?? 0) + 1
    const isFull = this.#hotKeys.size >= this.#maxKeys
    if (samples < HOT_SAMPLES || isFull || this.#isClosed || this.#hotKeys.has(id)) {
      this.#samples.set(id, samples)
      return
    }
    this.#samples.delete(id)
    const hotKey = new KeyLeases(keys, HOT_SAMPLES * SAMPLING, 0, this.#now())
    learnRemaining(hotKey, decision)
    this.#hotKeys.set(id, hotKey)
    this.#scheduleSweep()
    this.#renew(hotKey)
  }

  #useLease(hotKey: KeyLeases, units: number, now: number): Lease | undefined {
    const lease = hotKey.use(units, now)
    if (lease !== undefined) {
      hotKey.count(units, now, this.#leaseMs)
      if (hotKey.fetching === 0 && hotKey.isLow) {
        this.#renew(hotKey)
      }
    }
    return lease
  }

  #renew(hotKey: KeyLeases): void {
    const units = hotKey.unitsToRequest
    if (units > 0) {
      void madeAt(undefined, () => this.#fetch(hotKey, units)).then((lease) => lease && this.#addLease(hotKey, lease))
    }
  }

  /** Requests units. Resolves with their lease, which is not available yet; never rejects. */
  #fetch(hotKey: KeyLeases, units: number): Promise<Lease | undefined> {
    const [sentAt, { version }] = [this.#now(), hotKey]
    hotKey.fetching++
    const answer = new Promise<OperationResult>((resolve) => {
      resolve(this.#store.execute(hotKey.keys, { kind: 'takeUpTo', units }))
    })
    const fetching = answer.then(
      ({ decision, units: granted }) => {
        hotKey.fetching--
        this.#pending.delete(fetching)
        learnRemaining(hotKey, decision)
        if (granted === 0) {
          return undefined
        }
        this.#onChange(hotKey.keys)
        const now = this.#now()
        const lease = new Lease(this.#policySet, hotKey.keys, decision, granted, sentAt, now, this.#leaseMs, version)
        if (decision.source === 'store') {
          return lease
        }
        // The fallback's units are used without a lease.
        this.#return(hotKey.keys, { ...lease.refundOf(granted), source: decision.source })
        return undefined
      },
      // The calls that need the units fail or succeed by themselves.
      () => {
        hotKey.fetching--
        this.#pending.delete(fetching)
        return undefined
      },
    )
    this.#pending.add(fetching)
    return fetching
  }

  #addLease(hotKey: KeyLeases, lease: Lease): void {
    if (hotKey.version === lease.version && !this.#isClosed) {
      hotKey.addLease(lease)
    } else {
      this.#endLease(hotKey, lease)
    }
  }

  #beginGroup(hotKey: KeyLeases, first: GroupedCall, maker: CallMaker): void {
    const group = new CallGroup(first, () => this.#send(hotKey, group, maker))
    hotKey.group = group
    this.#withGroup.add(hotKey)
    scheduler.runAfterTick(() => group.send())
  }

  #send(hotKey: KeyLeases, group: CallGroup, maker: CallMaker): void {
    const { first, followers } = group
    group.sentAt = this.#now()
    const units = followers.length + hotKey.unitsToRequest
    // Before the first call, so that a refusal of that call says that nothing is left.
    // Both have the deadline of the first call: the group waits for both.
    const fetching = units > 0 ? first.inItsTime(() => this.#fetch(hotKey, units)) : Promise.resolve(undefined)
    const answer = new Promise<Decision>((resolve) => resolve(first.inItsTime(() => maker.askStore(first.key))))
    Promise.all([fetching, answer]).then(
      ([lease, decision]) => this.#settle(hotKey, group, decision, lease, maker),
      async (error) => {
        this.#forgetGroup(hotKey, group)
        first.reject(error)
        for (const follower of followers) {
          follower.askAlone(maker)
        }
        const lease = await fetching
        if (lease !== undefined) {
          this.#addLease(hotKey, lease)
        }
      },
    )
  }

  #settle(hotKey: KeyLeases, group: CallGroup, decision: Decision, lease: Lease | undefined, maker: CallMaker): void {
    this.#forgetGroup(hotKey, group)
    learnRemaining(hotKey, decision)
    const now = this.#now()
    const { origin } = this.#store
    // These calls were made before a change of the key in the meantime.
    const use = (): Decision | undefined => {
      const used = lease?.use(1, now) ? lease : hotKey.use(1, now)
      return used && withMetadata(used.decisionAt(now), origin, used.keys, 1)
    }
    const { first, followers } = group
    first.resolve(decision.allowed ? decision : (use() ?? decision))
    for (const follower of followers) {
      const used = use()
      if (used !== undefined) {
        follower.resolve(used)
      } else if (decision.source !== 'store') {
        follower.askAlone(maker)
      } else if (decision.allowed) {
        follower.retry(maker)
      } else {
        follower.resolve(withMetadata(sameRefusal(decision, this.#policySet), origin, follower.key, 0))
      }
    }
    if (lease !== undefined && lease.left > 0) {
      this.#addLease(hotKey, lease)
    }
  }

  #closeGroup(hotKey: KeyLeases): void {
    this.sendGroup(hotKey)
    hotKey.group = undefined
    this.#withGroup.delete(hotKey)
  }

  #forgetGroup(hotKey: KeyLeases, group: CallGroup): void {
    if (hotKey.group === group) {
      this.#closeGroup(hotKey)
    }
  }

  /** Gives the unused units of a lease back, unless the counts that contain them were removed. */
  #endLease(hotKey: KeyLeases, lease: Lease): void {
    const units = lease.left
    lease.left = 0
    if (units > 0 && lease.version >= hotKey.resetVersion && !lease.isDrained(this.#now())) {
      this.#return(lease.keys, lease.refundOf(units))
    }
  }

  #return(keys: Keys, refund: RefundOperation): void {
    const answer = new Promise((resolve) => resolve(madeAt(undefined, () => this.#store.execute(keys, refund))))
    const end = (): void => {
      this.#pending.delete(returning)
      this.#onChange(keys)
    }
    const returning = answer.then(end, end)
    this.#pending.add(returning)
  }

  #scheduleSweep(): void {
    if (this.#sweep === undefined && !this.#isClosed) {
      this.#sweep = timers.setTimeout(() => this.#sweepKeys(), Math.ceil(this.#leaseMs / 4))
      // Not all platforms return an object. Units that a process takes with it stay charged.
      const sweep: { unref?(): void } = this.#sweep as never
      sweep.unref?.()
    }
  }

  #sweepKeys(): void {
    this.#sweep = undefined
    const now = this.#now()
    for (const [id, hotKey] of this.#hotKeys) {
      for (const lease of hotKey.takeEnded(now)) {
        this.#endLease(hotKey, lease)
      }
      if (!hotKey.isActive(now, this.#leaseMs)) {
        this.#hotKeys.delete(id)
      }
    }
    if (this.#hotKeys.size > 0) {
      this.#scheduleSweep()
    }
  }
}

function idOf({ keys, tag }: Keys): string {
  return keys.length === 1 ? idOfKey(keys[0] as string, 0, tag) : JSON.stringify([tag, ...keys])
}

function learnRemaining(hotKey: KeyLeases, { policies, source }: Decision): void {
  if (source === 'store') {
    let least = Number.POSITIVE_INFINITY
    for (const name in policies) {
      least = Math.min(least, (policies[name] as PolicyNumbers).remaining)
    }
    hotKey.remaining = least
  }
}

/** Whether two calls share a stored key. A change may omit parts. */
function hasAnyOf({ keys: { keys: own } }: KeyLeases, { keys }: Keys): boolean {
  return keys.some((key, dimension) => key !== undefined && own[dimension] === key)
}
