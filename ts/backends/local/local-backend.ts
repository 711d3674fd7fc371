import type { Decision } from '../../api/decision.js'
import { type DecisionOrigin, withMetadata, withUnits } from '../../api/decision-metadata.js'
import { Keys } from '../../input/keys.js'
import { YieldTicks } from '../../platform/yield-tick.js'
import type { Policy } from '../../policies/policy.js'
import type { PolicySet } from '../../policies/policy-set.js'
import {
  type LimiterBackend,
  type Store,
  type TakeManyResults,
  takeEach,
  type VariantIndex,
} from '../limiter-backend.js'
import type { Operation, OperationResult, ScheduledReservation } from '../operation.js'
import type { Units } from '../units.js'
import type { CallMaker, KeyLeases } from './key-leases.js'
import { LeasedKeys } from './lease.js'
import { leasedOverride, leasedPolicySet } from './leased-policies.js'
import { Leases } from './leases.js'
import type { LocalOptions } from './local-options.js'
import { RefusalCache } from './refusal-cache.js'

/**
 * Decides some calls in this process, without asking the store. Calls on one key stay in order: while one of
 * them waits for the answer to another, later ones wait behind it. There are no leases under policies with a meter, so
 * units of leases are numbers.
 */
export class LocalBackend implements LimiterBackend {
  readonly isSync = false
  readonly origin: DecisionOrigin
  readonly policySet: PolicySet
  readonly leases: Leases | undefined
  readonly #store: LimiterBackend
  readonly #options: LocalOptions
  readonly #now: () => number
  readonly #holders: Store['leases']
  readonly #variants: Set<LocalBackend>
  readonly #refusals: RefusalCache
  readonly #yieldTicks = new YieldTicks(256)
  readonly #callMaker: CallMaker = {
    askStore: (key) => this.#askStore(key, 1),
    takeAgain: (key) => (typeof key === 'string' ? this.take(key, 1) : this.takeBy(key, 1)),
  }

  /**
   * @param now - Milliseconds of a clock that never steps and that counts suspension.
   * @param holders - The leases of the store's limiters.
   * @param variants - The variants of the limiter. A change by one clears the leases and refusals of all.
   */
  constructor(
    store: LimiterBackend,
    options: LocalOptions,
    now: () => number,
    holders: Store['leases'],
    variants = new Set<LocalBackend>(),
  ) {
    const { leaseMs, maxKeys } = options
    const { policySet } = store
    this.#options = options
    this.#now = now
    this.#holders = holders
    this.#variants = variants.add(this)
    this.origin = store.origin
    this.policySet = policySet
    this.#store = store
    this.#refusals = new RefusalCache(policySet, options, now)
    this.leases =
      leaseMs === undefined ? undefined : new Leases(store, policySet, leaseMs, maxKeys, now, holders, this.#outdate)
  }

  get isDown(): boolean {
    return this.#store.isDown
  }

  take(key: string, cost: number): Decision | Promise<Decision> {
    // A value that is not a valid key is neither hot nor among the refused keys. The store reports it.
    const hotKey = typeof key === 'string' ? this.leases?.find(key) : undefined
    if (hotKey !== undefined) {
      return this.#takeHot(hotKey, key, cost)
    }
    if (!this.#refusals.has(key)) {
      return this.#ask(key, cost)
    }
    const refused = this.#refusals.decisionOnKey(key, cost)
    return refused === undefined
      ? this.takeBy(new Keys([key], undefined), cost)
      : this.#yieldTicks.resolve(withMetadata(refused, this.origin, key, cost))
  }

  takeBy(keys: Keys, cost: Units): Decision | Promise<Decision> {
    const hotKey = this.leases?.findBy(keys)
    if (hotKey !== undefined) {
      return this.#takeHot(hotKey, keys, cost as number)
    }
    const refused = this.#refusals.decisionOn(keys, cost)
    return refused === undefined
      ? this.#refusals.inTurn(
          keys,
          cost,
          () => this.#ask(keys, cost),
          () => this.takeBy(keys, cost),
        )
      : this.#yieldTicks.resolve(withUnits(refused, this.origin, keys, cost))
  }

  takeMany(keys: readonly string[], costs: readonly number[]): Promise<TakeManyResults> {
    return takeEach(keys, costs, (key, cost) => this.take(key, cost))
  }

  execute(keys: Keys, operation: Operation): OperationResult | Promise<OperationResult> {
    switch (operation.kind) {
      // Changes no units.
      case 'renew':
        return this.#store.execute(keys, operation)
      case 'peek':
        this.leases?.sendGroupsOf(keys)
        return this.#store.execute(keys, operation)
      case 'take':
        return this.#executeById(keys, operation, operation.cost as number)
      case 'takeUpTo':
        return this.#takeUpTo(keys, operation.units) ?? this.#executeTake(keys, operation, 1)
      case 'reserve':
        return operation.callId === undefined
          ? this.#executeTake(keys, operation, operation.units as number)
          : this.#executeById(keys, operation, operation.units as number)
      case 'extend':
        return this.#executeTake(keys, operation, operation.units)
      case 'penalize': {
        this.#forEachVariant((variant) => variant.leases?.end(keys, false))
        const callStore = () => this.#changing(keys, () => this.#store.execute(keys, operation))
        return this.#refusals.inTurn(keys, 0, callStore, () => this.execute(keys, operation))
      }
      case 'refund':
        this.#prepareRefund(keys)
        return this.leases !== undefined && keys instanceof LeasedKeys
          ? this.leases.refund(keys, operation.units as number)
          : this.#changing(keys, () => this.#store.execute(keys, operation))
      case 'settle':
      case 'cancelScheduled':
        this.#prepareRefund(keys)
        return this.#changing(keys, () => this.#store.execute(keys, operation))
      case 'override':
        return this.#change(keys, { ...operation, policies: this.#leasedOverride(operation.policies) })
      default:
        return this.#change(keys, operation)
    }
  }

  schedule(keys: Keys, cost: Units, maxWaitUs: number): ScheduledReservation | Promise<ScheduledReservation> {
    this.leases?.sendGroupsOf(keys)
    return this.#refusals.inTurn(
      keys,
      0,
      () => this.#changing(keys, () => this.#store.schedule(keys, cost, maxWaitUs)),
      () => this.schedule(keys, cost, maxWaitUs),
    )
  }

  openVariant(policySet: PolicySet, variant: VariantIndex): LocalBackend {
    const { leaseMs } = this.#options
    const own = leaseMs === undefined ? policySet : leasedPolicySet(policySet, leaseMs)
    const store = this.#store.openVariant(own, variant)
    return new LocalBackend(store, this.#options, this.#now, this.#holders, this.#variants)
  }

  ready(takesOver: boolean): Promise<void> {
    return this.#store.ready(takesOver)
  }

  async close(): Promise<void> {
    await this.leases?.close()
    this.#variants.delete(this)
    await this.#store.close()
  }

  #takeHot(hotKey: KeyLeases, key: string | Keys, cost: number): Decision | Promise<Decision> {
    const leases = this.leases as Leases
    const leased = leases.use(hotKey, cost)
    if (leased !== undefined) {
      return this.#yieldTicks.resolve(leased)
    }
    const refused =
      typeof key === 'string' ? this.#refusals.decisionOnKey(key, cost) : this.#refusals.decisionOn(key, cost)
    if (refused !== undefined) {
      return this.#yieldTicks.resolve(withMetadata(refused, this.origin, key, cost))
    }
    return leases.areAlone(cost)
      ? leases.askAlone(hotKey, cost, () => this.#askStore(key, cost))
      : leases.ask(hotKey, key, cost, this.#callMaker)
  }

  #askStore(key: string | Keys, cost: Units): Decision | Promise<Decision> {
    return this.#learnFrom(key, cost, () =>
      typeof key === 'string' ? this.#store.take(key, cost as number) : this.#store.takeBy(key, cost),
    )
  }

  #ask(key: string | Keys, cost: Units): Decision | Promise<Decision> {
    const answer = this.#askStore(key, cost)
    this.leases?.sample(key, answer)
    return answer
  }

  /** Asks the store, and remembers a refusal. */
  #learnFrom<T extends object>(key: string | Keys, cost: Units, ask: () => T | Promise<T>): T | Promise<T> {
    if (!this.#refusals.isOn) {
      return ask()
    }
    const { sentAt } = this.#refusals
    const answer = ask()
    return answer instanceof Promise ? this.#refusals.learn(answer, key, cost, sentAt, this.#onAnswer) : answer
  }

  /** Changes the refusals of the key in the other tiers by a decision of the store. */
  readonly #onAnswer = (keys: Keys, decision: Decision, sentAt: number): void => {
    if (this.#variants.size === 1) {
      return
    }
    this.#forEachVariant((variant) => {
      if (variant === this) {
        return
      }
      if (decision.allowed) {
        variant.#refusals.outdate(keys)
      } else {
        variant.#refusals.shorten(keys, decision, sentAt)
      }
    })
  }

  /** Calls the store to change keys, which outdates refusals in all tiers. */
  #changing<T extends object>(keys: Keys, call: () => T | Promise<T>): T | Promise<T> {
    const answer = call()
    if (this.#refusals.isOn && answer instanceof Promise) {
      const onEnd = (): void => this.#outdate(keys)
      answer.then(onEnd, onEnd)
    }
    return answer
  }

  /** Drops the refusals of keys in all tiers. */
  readonly #outdate = (keys: Keys): void => {
    if (this.#refusals.isOn) {
      this.#forEachVariant((variant) => variant.#refusals.outdate(keys))
    }
  }

  /** The answer of a lease that has all the units; otherwise `undefined`. */
  #takeUpTo(keys: Keys, units: number): OperationResult | Promise<OperationResult> | undefined {
    const hotKey = this.leases?.findBy(keys)
    const leased = hotKey && this.leases?.useUpTo(hotKey, units)
    return leased && this.#yieldTicks.resolve(leased)
  }

  /** An operation that takes units from the store, and that is refused if `cost` does not fit. */
  #executeTake(keys: Keys, operation: Operation, cost: Units): OperationResult | Promise<OperationResult> {
    const refused = this.#refusals.decisionOn(keys, cost)
    if (refused !== undefined) {
      return this.#yieldTicks.resolve({ decision: refused, units: 0 })
    }
    this.leases?.sendGroupsOf(keys)
    const callStore = () => this.#learnFrom(keys, cost, () => this.#store.execute(keys, operation))
    return this.#refusals.inTurn(keys, cost, callStore, () => this.#executeTake(keys, operation, cost))
  }

  /** A call with an identifier. Only the store knows whether it is repeated, also after a refusal of another call. */
  #executeById(keys: Keys, operation: Operation, cost: number): OperationResult | Promise<OperationResult> {
    this.leases?.sendGroupsOf(keys)
    const callStore = () => this.#learnFrom(keys, cost, () => this.#store.execute(keys, operation))
    return this.#refusals.inTurn(keys, cost, callStore, () => this.#executeById(keys, operation, cost))
  }

  /** Changes keys in the store, after everything that is known of them here has ended. */
  #change(keys: Keys, operation: Operation): OperationResult | Promise<OperationResult> {
    this.#forEachVariant((variant) => {
      variant.leases?.end(keys, operation.kind === 'reset')
      variant.#refusals.forget(keys)
      if (operation.kind === 'block') {
        variant.#refusals.block(keys, operation.durationUs / 1_000)
      }
    })
    return this.#changing(keys, () => this.#store.execute(keys, operation))
  }

  /** Before units go back to the store: refusals from before are no longer valid. */
  #prepareRefund(keys: Keys): void {
    this.#forEachVariant((variant) => {
      variant.#refusals.forget(keys)
      variant.leases?.closeGroupsOf(keys)
    })
  }

  #forEachVariant(call: (variant: LocalBackend) => void): void {
    this.#variants.forEach(call)
  }

  #leasedOverride(policies: readonly (Policy | undefined)[]): readonly (Policy | undefined)[] {
    const { leaseMs } = this.policySet
    return leaseMs === undefined ? policies : leasedOverride(this.policySet, policies, leaseMs)
  }
}
