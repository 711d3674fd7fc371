import { type LimiterBackend, Store, type TakeManyResults, takeEach } from '../backends/limiter-backend.js'
import { openBackend } from '../backends/open.js'
import { appliedBy, type CallId, type Operation } from '../backends/operation.js'
import { isNone, type Units } from '../backends/units.js'
import { microsOf } from '../input/duration.js'
import { KeyReader, tagOf } from '../input/keys.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../input/options.js'
import { type BanRule, type PolicySet, policySetsOf } from '../policies/policy-set.js'
import { withBanRule } from './ban.js'
import {
  checkCostCount,
  durationUsOf,
  tagOfOptions,
  takeArgumentsOf,
  takeManyArgumentsOf,
  tierArgumentsOf,
  unitsOf,
} from './call-options.js'
import { chargedBy } from './charged-by.js'
import { copiedDecisionOf } from './copied-decision.js'
import type { Applied, Decision } from './decision.js'
import { notRefundableError, refundCreditOf, withMetadata } from './decision-metadata.js'
import { TollgateError } from './error.js'
import { limiterOptionsOf } from './limiter-options.js'
import {
  checkUnmetered,
  costOf,
  costsOf,
  type Moved,
  meteredCallOf,
  movedBy,
  permitUnitsOf,
  refundedUnitsOf,
  reservedUnitsOf,
  someUnitsOf,
} from './metered-units.js'
import { overriddenPolicies } from './override.js'
import { acquireCallOf, hasConcurrency, needsAcquireError, type Permit } from './permit.js'
import { PermitPool } from './permit-pool.js'
import { chargeFor, checkRefundKey, performRefund, type RefundKey, refundOperationFor } from './refund.js'
import { takeById } from './repeatable.js'
import {
  checkReservable,
  type HoldCall,
  type Reservation,
  reservationOf,
  reserveOptionsOf,
  type Settlement,
  settleReservation,
} from './reservation.js'
import { decodeReservation, HOLD_BYTES, type KnownReservation } from './reservation-id.js'
import { resolved } from './resolved.js'
import { abortError, ScheduledWaits } from './scheduled-waits.js'
import { type PoliciesByName, TierBackends } from './tier-backends.js'
import { checkRates, type WaitedOrRefused, waitCallOf } from './wait.js'

/** Advice for a method that is passed to `map`, which also passes the index and the array. */
const adviceForMap = (method: string) => `in a map, write (key) => limiter.${method}(key)`

/** The probable intent of surplus arguments, by method. */
const ADVICE = {
  take: `put options in one object, { cost, tag }; ${adviceForMap('take')}, or limiter.takeMany(keys)`,
  takeSync: `put options in one object, { cost, tag }; ${adviceForMap('takeSync')}, or limiter.takeMany(keys)`,
  tryTake: `put options in one object, { cost, tag }; ${adviceForMap('tryTake')}`,
  takeMany: 'write takeMany([key, …], [cost, …])',
  peek: `put options in one object, { cost, tag }; ${adviceForMap('peek')}`,
  wait: `put options in one object, { cost, maxWait }; ${adviceForMap('wait')}`,
  acquire: `put options in one object, { cost, maxWait }; ${adviceForMap('acquire')}`,
  reset: adviceForMap('reset'),
  unblock: adviceForMap('unblock'),
  clearOverride: adviceForMap('clearOverride'),
}

/** A call that takes or previews units, and the backend of its tier. */
interface TakingCall {
  readonly own: LimiterBackend
  readonly units: Units
  readonly tag: string | undefined
  readonly callId: CallId | undefined
}

/** A store that the limiter owns, and how to release it when the limiter is closed. */
export interface OwnedStore {
  readonly store: Store
  release(): Promise<void>
}

/**
 * The implementation of `RateLimiter`: it checks arguments and calls its backend, before its first `await`, so
 * that calls take effect in the order in which they are made. `ownStore` makes the store if the options name none,
 * or a URL.
 */
export class Limiter {
  readonly #keyReader: KeyReader
  readonly #hasStringKeys: boolean
  /** Whether keys are strings, calls name no tier, and no policy has a meter or needs permits. */
  readonly #isPlain: boolean
  readonly #scheduledWaits: ScheduledWaits
  /** `undefined` without a policy for concurrency. */
  readonly #permits: PermitPool | undefined
  readonly #tiers: TierBackends
  /** The backend of the first tier; `undefined` once the limiter is closed. */
  #backend: LimiterBackend | undefined
  readonly #ownedStore: OwnedStore | undefined
  readonly prefix: string | undefined
  readonly storeKind: 'embedded' | 'redis'
  readonly #takesOver: boolean
  readonly #ban: BanRule | undefined

  constructor(policy: unknown, options: unknown, ownStore: (url: string | undefined) => OwnedStore) {
    const policySets = policySetsOf(policy)
    const { store, prefix, tag, onStoreFailure, local, takesOver, ban } = limiterOptionsOf(options)
    const written = withBanRule(policySets, ban)
    const { dimensions, tier, meters } = written[0] as PolicySet
    this.prefix = prefix
    this.#takesOver = takesOver
    this.#ban = ban
    this.#keyReader = new KeyReader(dimensions)
    this.#hasStringKeys = this.#keyReader.usesStrings
    const takesUnits = meters === undefined && !hasConcurrency(written[0] as PolicySet)
    this.#isPlain = this.#hasStringKeys && tier === undefined && takesUnits
    this.#ownedStore = store instanceof Store ? undefined : ownStore(store)
    try {
      const opened = this.#ownedStore?.store ?? (store as Store)
      this.storeKind = opened.address === undefined ? 'embedded' : 'redis'
      this.#tiers = new TierBackends(written, (policySet) =>
        openBackend(opened, policySet, { prefix, tag, onStoreFailure, local }),
      )
      this.#backend = this.#tiers.first
      const { waitingTime } = opened
      this.#scheduledWaits = new ScheduledWaits(waitingTime)
      this.#permits = hasConcurrency(written[0] as PolicySet) ? new PermitPool(waitingTime) : undefined
    } catch (error) {
      void this.#ownedStore?.release()
      throw error
    }
  }

  get policies(): PoliciesByName {
    return this.#tiers.policies
  }

  get tiers(): { readonly [tier: string]: PoliciesByName } {
    return this.#tiers.policiesByTier
  }

  // Not async: the backend's promise would take three more microtask turns.
  take(key: unknown, cost?: unknown): Promise<Decision> {
    try {
      checkCount(arguments.length, 2, 'take takes a key and a cost or options', ADVICE.take)
      const backend = this.#checkOpen()
      const result = this.#takeFrom(backend, key, cost)
      // A store that is not asked, or is down, has a synchronous answer.
      return !backend.isSync && result instanceof Promise ? result : resolved(result as Decision)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  takeSync(key: unknown, cost?: unknown): Decision {
    checkCount(arguments.length, 2, 'takeSync takes a key and a cost or options', ADVICE.takeSync)
    const backend = this.#checkOpen()
    if (!backend.isSync) {
      throw new TollgateError('INVALID_OPTION', 'takeSync needs the embedded store: over Redis, await take')
    }
    return this.#takeFrom(backend, key, cost) as Decision
  }

  async tryTake(key: unknown, cost?: unknown): Promise<boolean> {
    checkCount(arguments.length, 2, 'tryTake takes a key and a cost or options', ADVICE.tryTake)
    return (await this.take(key, cost)).allowed
  }

  async takeMany(keys: readonly unknown[], cost?: unknown): Promise<Decision[]> {
    checkCount(arguments.length, 2, 'takeMany takes an array of keys, and their costs or options', ADVICE.takeMany)
    this.#checkOpen()
    if (!Array.isArray(keys)) {
      throw invalid('INVALID_KEY', 'keys', 'must be an array of keys', keys)
    }
    this.#checkTakes('takeMany')
    const results = await this.#takeMany(keys, cost)
    const failed = results.filter((result) => result instanceof TollgateError)
    const [first] = failed
    if (first === undefined) {
      return results as Decision[]
    }
    const message = `${failed.length} of ${keys.length} keys failed, the first because ${first.message}`
    throw new TollgateError(first.code, message, { charged: chargedBy(results), cause: first, results })
  }

  #takeMany(keys: readonly unknown[], cost: unknown): TakeManyResults | Promise<TakeManyResults> {
    const { meters } = this.#checkOpen().policySet
    if (meters === undefined) {
      const { costs, tag, tier } = takeManyArgumentsOf(cost, keys.length)
      const own = this.#tiers.backendOf('takeMany', tier)
      return this.#hasStringKeys && tag === undefined
        ? own.takeMany(keys as readonly string[], costs)
        : takeEach(keys, costs, (key, cost) => own.takeBy(this.#keyReader.read(key, tag), cost))
    }
    if (Array.isArray(cost)) {
      checkCostCount(cost, keys.length)
      const own = this.#tiers.backendOf('takeMany', undefined)
      const costs = cost.map((one) => costsOf(meters, one))
      return takeEach(keys, costs, (key, costs) => own.takeBy(this.#keyReader.read(key, undefined), costs))
    }
    const { own, units, tag } = this.#callOf('takeMany', cost, 1)
    return takeEach(
      keys,
      keys.map(() => units),
      (key, units) => own.takeBy(this.#keyReader.read(key, tag), units),
    )
  }

  async takeUpTo(key: unknown, units: unknown, options?: unknown): Promise<Decision & { readonly granted: number }> {
    checkCount(arguments.length, 3, 'takeUpTo takes a key, units and options')
    checkUnmetered('takeUpTo', this.#checkOpen().policySet)
    this.#checkTakes('takeUpTo')
    const { tag, tier } = tierArgumentsOf('takeUpTo', options)
    const backend = this.#tiers.backendOf('takeUpTo', tier)
    const keys = this.#keyReader.read(key, tag)
    const result = await backend.execute(keys, { kind: 'takeUpTo', units: unitsOf(units) })
    const { decision, units: granted } = result
    const answer = { ...decision, granted }
    withMetadata(answer, backend.origin, result.keys ?? keys, granted)
    return answer
  }

  async peek(key: unknown, cost?: unknown): Promise<Decision> {
    checkCount(arguments.length, 2, 'peek takes a key and a cost or options', ADVICE.peek)
    this.#checkOpen()
    const { own, units, tag } = this.#callOf('peek', cost, 0)
    return (await own.execute(this.#keyReader.read(key, tag), { kind: 'peek', cost: units })).decision
  }

  async reserve(key: unknown, units: unknown, options?: unknown): Promise<Reservation> {
    checkCount(arguments.length, 3, 'reserve takes a key, units and options')
    const { policySet } = this.#checkOpen()
    checkReservable('reserve', policySet)
    const { durationUs, tag, tier, callId } = reserveOptionsOf(options)
    const currentBackend = () => this.#tiers.backendOf('reserve', tier)
    const backend = currentBackend()
    const keys = this.#keyReader.read(key, tag)
    const taken = reservedUnitsOf(backend.policySet, units)
    if (this.#permits !== undefined) {
      const call = { units: taken, maxWaitMs: 0, signal: undefined, tag, tier, ttlUs: durationUs, callId }
      return this.#permits.acquire(currentBackend, keys, call) as Promise<Reservation>
    }
    const { meters } = backend.policySet
    const hold = crypto.getRandomValues(new Uint8Array(HOLD_BYTES))
    const operation = { kind: 'reserve', hold, units: taken, durationUs, callId } as const
    const { decision, first } = await backend.execute(keys, operation)
    const chargeOf = (decision: Decision, units: Units) => chargeFor(policySet, decision, units)
    const reservation: KnownReservation = {
      hold: first?.hold ?? hold,
      keys,
      tier: tier as string | undefined,
      source: decision.source,
      heldUnits: first?.units ?? taken,
      expiresAtUs: first?.expiresAtUs ?? microsOf(decision.at) + durationUs,
      charges: [chargeOf(decision, first?.units ?? taken)],
    }
    return reservationOf(decision, reservation, durationUs, {
      call: this.#holdCall('reserve', reservation),
      chargeOf,
      meters,
    })
  }

  async settle(id: unknown, actual?: unknown): Promise<Settlement> {
    checkCount(arguments.length, 2, 'settle takes the id of a reservation and the actual units')
    const { policySet } = this.#checkOpen()
    checkReservable('settle', policySet)
    const reservation = decodeReservation(id, policySet)
    return settleReservation(reservation, actual, this.#holdCall('settle', reservation), policySet.meters)
  }

  async penalize(key: unknown, units?: unknown, options?: unknown): Promise<Moved> {
    checkCount(arguments.length, 3, 'penalize takes a key, units and options')
    this.#checkOpen()
    this.#checkTakes('penalize')
    const { tag, tier } = tierArgumentsOf('penalize', options)
    const backend = this.#tiers.backendOf('penalize', tier)
    const keys = this.#keyReader.read(key, tag)
    const { meters } = backend.policySet
    const charged =
      meters === undefined ? unitsOf(units === undefined ? 1 : units) : someUnitsOf(meters, 'units', units)
    return movedBy(meters, await backend.execute(keys, { kind: 'penalize', units: charged }))
  }

  async refund(decision: unknown, units?: unknown, options?: unknown): Promise<Moved> {
    checkCount(arguments.length, 3, 'refund takes a decision, units and options')
    const { origin, policySet } = this.#checkOpen()
    const { meters, policies } = policySet
    const credit = refundCreditOf(decision, origin, meters && policies.length)
    if (credit === undefined) {
      return this.#refundCopy(decision, units, options)
    }
    // The key may be given all the same, so that a program can refund both kinds.
    const given = options === undefined ? undefined : this.#readRefundKey(options)
    const backend = this.#tiers.backendOf('refund', given?.tier ?? credit.tier)
    checkRefundKey(credit, given)
    const claimed = credit.claim(units === undefined ? undefined : refundedUnitsOf(meters, units))
    if (isNone(claimed)) {
      return movedBy(meters, undefined)
    }
    const { cost, left } = credit
    const operation = refundOperationFor(backend.policySet, decision as Decision, claimed, cost, left)
    return movedBy(meters, await performRefund(backend, credit, operation))
  }

  /** Refunds units of a copy of a decision, which knows neither its key nor its units. */
  async #refundCopy(value: unknown, units: unknown, options: unknown): Promise<Moved> {
    if (options === undefined || typeof value !== 'object' || value === null || value instanceof Promise) {
      throw notRefundableError(value)
    }
    const { keys, tier } = this.#readRefundKey(options)
    const backend = this.#tiers.backendOf('refund', tier)
    const decision = copiedDecisionOf(value, backend.policySet)
    const { meters } = backend.policySet
    const refunded = refundedUnitsOf(meters, units)
    // Units of a lease or of the embedded share are those of the process that decided.
    if (!decision.allowed || decision.source !== 'store') {
      return movedBy(meters, undefined)
    }
    const kept = typeof refunded === 'number' ? 0 : refunded.map(() => 0)
    const operation = refundOperationFor(backend.policySet, decision, refunded, refunded, kept)
    return movedBy(meters, await backend.execute(keys, operation))
  }

  #readRefundKey(options: unknown): RefundKey {
    const { key, tag, tier } = optionsOf('INVALID_OPTION', 'refund', options, ['key', 'tag', 'tier'])
    return { keys: this.#keyReader.read(key, tagOf(tag)), tier }
  }

  async wait(key: unknown, options?: unknown): Promise<WaitedOrRefused> {
    checkCount(arguments.length, 2, 'wait takes a key and options', ADVICE.wait)
    checkRates(this.#checkOpen().policySet)
    const call = waitCallOf(options, (cost, tier) => costOf(this.#policySetOf('wait', tier).meters, cost, 1))
    const currentBackend = () => this.#tiers.backendOf('wait', call.tier)
    currentBackend()
    const keys = this.#keyReader.read(key, call.tag)
    if (call.signal?.aborted) {
      throw abortError(call.signal, false)
    }
    return this.#scheduledWaits.wait(currentBackend, keys, call)
  }

  async acquire(key: unknown, options?: unknown): Promise<Permit> {
    checkCount(arguments.length, 2, 'acquire takes a key and options', ADVICE.acquire)
    this.#checkOpen()
    const permits = this.#permits
    if (permits === undefined) {
      const fix = 'make the limiter with concurrency({ limit }), or use take(key)'
      throw new TollgateError('INVALID_OPTION', `acquire needs a concurrency policy; ${fix}`)
    }
    const call = acquireCallOf(options, (cost, tier) => permitUnitsOf(this.#policySetOf('acquire', tier), cost))
    const currentBackend = () => this.#tiers.backendOf('acquire', call.tier)
    currentBackend()
    return permits.acquire(currentBackend, this.#keyReader.read(key, call.tag), call)
  }

  async reset(key: unknown, options?: unknown): Promise<Applied> {
    checkCount(arguments.length, 2, 'reset takes a key and options', ADVICE.reset)
    return this.#changeKey('reset', key, options, { kind: 'reset' })
  }

  async block(key: unknown, duration: unknown, options?: unknown): Promise<Applied> {
    checkCount(arguments.length, 3, 'block takes a key, a duration and options')
    return this.#changeKey('block', key, options, {
      kind: 'block',
      durationUs: durationUsOf('block', 'duration', duration),
    })
  }

  async unblock(key: unknown, options?: unknown): Promise<Applied> {
    checkCount(arguments.length, 2, 'unblock takes a key and options', ADVICE.unblock)
    return this.#changeKey('unblock', key, options, { kind: 'unblock' })
  }

  async override(key: unknown, numbers: unknown, options: unknown): Promise<Applied> {
    checkCount(arguments.length, 3, 'override takes a key, numbers and options')
    this.#checkOpen()
    const { ttl, tag, tier } = optionsOf('INVALID_OPTION', 'override', options, ['ttl', 'tag', 'tier'])
    const backend = this.#tiers.backendOf('override', tier)
    const policies = overriddenPolicies(this.#tiers.writtenOf(tier), numbers)
    const durationUs = durationUsOf('override', 'ttl', ttl)
    const overridden = backend.policySet.policies.filter((_, index) => policies[index] !== undefined)
    const dimensions = new Set(overridden.map(({ dimension }) => dimension))
    const keys = this.#keyReader.readDimensions(key, tagOf(tag), dimensions)
    return appliedBy(await backend.execute(keys, { kind: 'override', policies, durationUs }))
  }

  async clearOverride(key: unknown, options?: unknown): Promise<Applied> {
    checkCount(arguments.length, 2, 'clearOverride takes a key and options', ADVICE.clearOverride)
    return this.#changeKey('clearOverride', key, options, { kind: 'clearOverride' })
  }

  update(policies: unknown): void {
    checkCount(arguments.length, 1, 'update takes the policies')
    this.#checkOpen()
    this.#backend = this.#tiers.update(withBanRule(policySetsOf(policies), this.#ban))
  }

  // `ready` and `close` accept any arguments: signal and promise handlers pass some.
  async ready(): Promise<void> {
    return this.#checkOpen().ready(this.#takesOver)
  }

  async close(): Promise<void> {
    const backend = this.#backend
    this.#backend = undefined
    if (backend !== undefined) {
      const pendingWaits = this.#scheduledWaits.close()
      if (pendingWaits !== undefined) {
        await pendingWaits
      }
      await this.#permits?.close()
      await this.#tiers.close()
      await this.#ownedStore?.release()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #holdCall(method: string, { keys, tier }: KnownReservation): HoldCall {
    return (operation) => {
      this.#checkOpen()
      return this.#tiers.backendOf(method, tier).execute(keys, operation)
    }
  }

  /** The backend of the first tier. Throws if the limiter is closed. */
  #checkOpen(): LimiterBackend {
    if (this.#backend === undefined) {
      throw new TollgateError('CLOSED', 'the limiter has been closed')
    }
    return this.#backend
  }

  /** Throws if units cannot be taken without a permit. */
  #checkTakes(method: string): void {
    if (this.#permits !== undefined) {
      throw needsAcquireError(method)
    }
  }

  #takeFrom(backend: LimiterBackend, key: unknown, cost: unknown): Decision | Promise<Decision> {
    if (this.#isPlain && typeof cost !== 'object') {
      return backend.take(key as string, cost === undefined ? 1 : wholeNumber('INVALID_COST', 'cost', cost))
    }
    this.#checkTakes('take')
    if (backend.policySet.meters !== undefined) {
      const { own, units, tag, callId } = this.#callOf('take', cost, 1)
      const keys = this.#keyReader.read(key, tag)
      return callId === undefined ? own.takeBy(keys, units) : takeById(own, keys, units, callId)
    }
    const { units, tag, tier, callId } = takeArgumentsOf('take', cost, 1)
    const own = this.#tiers.backendOf('take', tier)
    if (callId !== undefined) {
      return takeById(own, this.#keyReader.read(key, tag), units, callId)
    }
    if (this.#hasStringKeys && tag === undefined) {
      return own.take(key as string, units)
    }
    return own.takeBy(this.#keyReader.read(key, tag), units)
  }

  /** The backend of a call, its checked cost and its tag. */
  #callOf(method: string, value: unknown, min: number): TakingCall {
    const { meters } = this.#tiers.first.policySet
    if (meters === undefined) {
      const { units, tag, tier, callId } = takeArgumentsOf(method, value, min)
      return { own: this.#tiers.backendOf(method, tier), units, tag, callId }
    }
    const { cost, tag, tier, callId } = meteredCallOf(method, value, meters)
    const own = this.#tiers.backendOf(method, tier)
    return { own, units: costOf(own.policySet.meters, cost, min), tag: tagOf(tag), callId }
  }

  #policySetOf(method: string, tier: unknown): PolicySet {
    return this.#tiers.backendOf(method, tier).policySet
  }

  /** Changes the state of the given parts of a key. */
  async #changeKey(method: string, key: unknown, options: unknown, operation: Operation): Promise<Applied> {
    const backend = this.#checkOpen()
    return appliedBy(await backend.execute(this.#keyReader.readPartial(key, tagOfOptions(method, options)), operation))
  }
}
