import type { Decision } from '../../api/decision.js'
import { Keys } from '../../input/keys.js'
import { timers } from '../../platform/timers.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { blocksOf } from '../blocks.js'
import { currentMadeAt, madeAt } from '../redis/batching/made-at.js'
import { scheduler } from '../redis/batching/scheduler.js'
import { type Units, unitsUnder } from '../units.js'
import { BoundedMap, idOf } from './bounded-map.js'
import type { LocalOptions } from './local-options.js'
import {
  cachedDecision,
  cachedSingleDecision,
  type KeyBlock,
  mayBeImpossible,
  type Refusal,
  RefusedKey,
  type RefusingPart,
  type RefusingParts,
  refusingPartsOf,
} from './refused-key.js'

/**
 * A refusal is long if it lasts this many times as long as its call took. Only then do calls wait for
 * one another when it ends: otherwise they would get fewer units than there are.
 */
const LONG = 4

/** More changed keys than this are forgotten together. */
const MAX_CHANGED = 1_000

/**
 * Refusals of the store, for as long as the store would refuse the same call again.
 *
 * The store decided a call that was sent at the local time `a` at `a` or later. With `retryAfterMs` r
 * it refuses the same cost for at least r − 1 ms from then on. So until a + r − 1 the store would
 * refuse each call that is refused here, unless something changes the key. The decision counts r from
 * the arrival of the answer: a caller who waits that long is not early.
 *
 * An admitted call may change the key so that other calls fit earlier: under other numbers, those of a
 * tier, an override or an earlier deploy, a state drains at another rate until a call is admitted. So
 * an admitted call ends the refusals of its keys in all tiers.
 *
 * Each meter of a key has a refusal of its own, because a call that costs less under one meter may cost more under
 * another. A call without a cost under a meter charges nothing there, so it neither waits for units of that meter nor
 * ends its refusal.
 *
 * When a long refusal ends, one call asks the store, and other calls on that key wait for its answer.
 * If it is admitted and leaves r units, calls that take r units together ask without waiting, and
 * then again one. So a flood on a refused key costs the store one call for each refusal, and at most
 * two for each admitted call. Where no call may depend on the connection of another, calls ask
 * without waiting.
 */
export class RefusalCache {
  readonly #policySet: PolicySet
  readonly #parts: RefusingParts
  readonly #isSingle: boolean
  readonly #maxMs: number
  readonly #now: () => number
  readonly #keys: BoundedMap<RefusedKey>
  #asking = 0
  /** When this limiter changed keys, while calls are being decided. Answers to calls that were sent before are old. */
  readonly #changedAt = new Map<string, number>()
  /** The same for all other keys. */
  #allChangedAt = Number.NEGATIVE_INFINITY

  /** The keys that this limiter has blocked, as long as older refusals of other keys may last. */
  readonly #blocked: BoundedMap<{ readonly until: number }>

  constructor(policySet: PolicySet, { refusalsMs, maxKeys }: LocalOptions, now: () => number) {
    this.#policySet = policySet
    this.#parts = refusingPartsOf(policySet)
    this.#isSingle = policySet.limits.length === 1
    this.#maxMs = refusalsMs
    this.#now = now
    this.#keys = new BoundedMap(maxKeys)
    this.#blocked = new BoundedMap(maxKeys)
  }

  get isOn(): boolean {
    return this.#maxMs > 0
  }

  get sentAt(): number {
    return this.#now()
  }

  has(key: unknown): boolean {
    return typeof key === 'string' && this.#keys.get(idOf(key, 0, undefined)) !== undefined
  }

  decisionOnKey(key: string, cost: number): Decision | undefined {
    if (!this.#isSingle) {
      return this.decisionOn(new Keys([key], undefined), cost)
    }
    const now = this.#now()
    const refusal = this.#keys.get(idOf(key, 0, undefined))?.refusalOf(cost, now)
    return refusal === undefined || mayBeImpossible(refusal, cost) ? undefined : cachedSingleDecision(refusal, now)
  }

  /** The decision on a call that the store would refuse; `undefined` if it must be asked. */
  decisionOn(keys: Keys, cost: Units): Decision | undefined {
    if (this.#keys.size === 0) {
      return undefined
    }
    const now = this.#now()
    const refusals: (Refusal | undefined)[] = []
    let isBlocked = false
    this.#forEachId(keys, (id, { policy }, part) => {
      const refusal = this.#keys.get(id)?.refusalOf(unitsUnder(cost, policy), now)
      if (refusal !== undefined) {
        refusals[part] = refusal
      }
      isBlocked ||= refusal === undefined && now < (this.#blocked.get(id)?.until ?? 0)
    })
    // The refusal of another part does not know the block.
    if (isBlocked) {
      return undefined
    }
    const known = refusals.filter((refusal) => refusal !== undefined)
    const isUnknown = known.some((refusal) => mayBeImpossible(refusal, cost))
    return known.length === 0 || (isUnknown && !known.some(({ isImpossible }) => isImpossible))
      ? undefined
      : cachedDecision(this.#policySet, this.#parts, refusals, cost, now)
  }

  /** Calls the store, unless calls on the same keys wait: then makes the call anew after them. */
  inTurn<T extends object>(
    keys: Keys,
    cost: Units,
    call: () => T | Promise<T>,
    again: () => T | Promise<T>,
  ): T | Promise<T> {
    if (this.#keys.size === 0) {
      return call()
    }
    let probed: readonly [id: string, key: RefusedKey] | undefined
    let waiting: RefusedKey['waiting']
    // A call that has waited may have an earlier deadline than the one that it would wait for.
    const since = currentMadeAt() ?? Number.POSITIVE_INFINITY
    this.#forEachId(keys, (id, { policy }) => {
      const key = this.#keys.get(id)
      const own = unitsUnder(cost, policy)
      const charges = own > 0 || typeof cost === 'number'
      if (charges && key?.isCheaper(own, this.#now())) {
        // If it is admitted, the refusal ends before the answer arrives.
        this.#keys.delete(id)
      } else if (key !== undefined) {
        // Also for a call without a cost here: calls on a key stay in order.
        waiting ??= key.since <= since ? key.waiting : undefined
        if (charges && key.waiting === undefined && probed === undefined && this.#isProbe(id, key, cost)) {
          probed = [id, key]
        }
      }
    })
    if (waiting !== undefined) {
      return behind(waiting, again)
    }
    return probed === undefined ? call() : this.#probe(...probed, call)
  }

  /** Remembers the refusal in an answer of the store. `onAnswer` is called after that. */
  learn<T extends object>(
    answer: Promise<T>,
    keys: string | Keys,
    cost: Units,
    sentAt: number,
    onAnswer: (keys: Keys, decision: Decision, sentAt: number) => void,
  ): Promise<T> {
    this.#asking++
    return answer.then(
      (value) => {
        const decision = decisionIn(value)
        if (decision.source === 'store') {
          const all = typeof keys === 'string' ? new Keys([keys], undefined) : keys
          if (decision.allowed) {
            this.#drop(all, cost)
          } else {
            this.#remember(all, cost, decision, sentAt)
          }
          onAnswer(all, decision, sentAt)
        }
        this.#onAnswer()
        return value
      },
      (error) => {
        this.#onAnswer()
        throw error
      },
    )
  }

  /** Forgets the refusals of keys before the keys are changed. */
  forget(keys: Keys): void {
    this.#forEachId(keys, (id) => {
      this.#blocked.delete(id)
      const key = this.#keys.get(id)
      const waiting = key?.waiting
      if (key !== undefined) {
        key.waiting = undefined
        this.#keys.delete(id)
      }
      // First: these calls are sent before the change, so their answers are out of date, too.
      runAll(waiting)
      if (this.#asking > 0) {
        this.#changedAt.set(id, this.#now())
      }
    })
    this.#boundChanged()
  }

  /** Records that keys are blocked. Calls with these keys ask the store until one of its answers shows the block. */
  block(keys: Keys, durationMs: number): void {
    const until = this.#now() + Math.min(durationMs, this.#maxMs)
    this.#forEachId(keys, (id) => this.#blocked.set(id, { until }))
  }

  #boundChanged(): void {
    if (this.#changedAt.size > MAX_CHANGED) {
      this.#allChangedAt = this.#now()
      this.#changedAt.clear()
    }
  }

  /** Drops the refusals of keys that were changed in the store. Calls that wait stay in turn. */
  outdate(keys: Keys): void {
    this.#drop(keys)
    if (this.#asking > 0) {
      this.#forEachId(keys, (id) => this.#changedAt.set(id, this.#now()))
      this.#boundChanged()
    }
  }

  /** Shortens refusals to the reset time in a refusal of another tier, which may have shortened a window. */
  shorten(keys: Keys, decision: Decision, sentAt: number): void {
    if (this.#keys.size === 0) {
      return
    }
    this.#forEachId(keys, (id, { limits }) => {
      const key = this.#keys.get(id)
      if (key?.refusal !== undefined && !key.refusal.isImpossible) {
        const resets = limits.map((name) => decision.policies[name]?.resetAfterMs ?? 0)
        key.until = Math.min(key.until, sentAt + Math.max(...resets) - 1)
      }
    })
  }

  /** @param cost - The units that were charged, if those without any stay refused. */
  #drop(keys: Keys, cost: Units = 1): void {
    if (this.#keys.size === 0) {
      return
    }
    this.#forEachId(keys, (id, { policy }) => {
      const key = this.#keys.get(id)
      const charges = unitsUnder(cost, policy) > 0
      if (charges && key?.refusal !== undefined && key.waiting === undefined) {
        this.#keys.delete(id)
      }
    })
  }

  #onAnswer(): void {
    this.#asking--
    if (this.#asking === 0) {
      this.#changedAt.clear()
    }
  }

  /** Whether later calls on a key should wait for the answer to a call of this cost. */
  #isProbe(id: string, key: RefusedKey, cost: Units): boolean {
    const isOver = this.#now() >= key.until
    if (key.refusal !== undefined) {
      if (isOver && !key.isLong) {
        this.#keys.delete(id)
      }
      return isOver && key.isLong && scheduler.hasBackpressure
    }
    if (isOver) {
      this.#keys.delete(id)
      return false
    }
    key.credit = key.credit.map((left, policy) => left - unitsUnder(cost, policy))
    return key.credit.some((left) => left < 0)
  }

  #probe<T extends object>(id: string, key: RefusedKey, call: () => T | Promise<T>): T | Promise<T> {
    const waiting: NonNullable<RefusedKey['waiting']> = []
    key.waiting = waiting
    key.since = currentMadeAt() ?? timers.now()
    const onAnswer = (answer: T | undefined) => {
      // If the key was changed or dropped, its calls no longer wait.
      if (key.waiting === waiting) {
        key.waiting = undefined
        this.#afterProbe(id, key, answer && decisionIn(answer), waiting.length > 0)
        runAll(waiting)
      }
    }
    let answer: T | Promise<T>
    try {
      answer = call()
    } catch (error) {
      onAnswer(undefined)
      throw error
    }
    if (answer instanceof Promise) {
      answer.then(onAnswer, () => onAnswer(undefined))
    } else {
      onAnswer(answer)
    }
    return answer
  }

  #afterProbe(id: string, key: RefusedKey, decision: Decision | undefined, isFlooded: boolean): void {
    const now = this.#now()
    if (key.refusal !== undefined && now < key.until) {
      return
    }
    if (decision?.allowed && decision.source === 'store' && isFlooded) {
      key.refusal = undefined
      key.credit = this.#leastOf('remaining', decision)
      key.until = now + this.#maxMs
    } else {
      this.#keys.delete(id)
    }
  }

  #remember(keys: Keys, cost: Units, decision: Decision, sentAt: number): void {
    const receivedAt = this.#now()
    const isImpossible = decision.status === 'impossible'
    const maxCosts = isImpossible ? undefined : this.#leastOf('capacity', decision)
    this.#forEachId(keys, (id, part) => {
      const retryAfterMs = retryOf(decision, part)
      if (retryAfterMs === 0) {
        return
      }
      const block = blockOf(decision, part, sentAt)
      let until = sentAt + Math.min(retryAfterMs - 1, this.#maxMs)
      if (this.#policySet.ban !== undefined && !isImpossible) {
        // The store has to count a refusal of a key that is not blocked: it may be a strike.
        until = Math.min(until, block?.until ?? Number.NEGATIVE_INFINITY)
      }
      const minCost = unitsUnder(cost, part.policy)
      const changedAt = this.#changedAt.get(id) ?? this.#allChangedAt
      const known = this.#keys.get(id)
      const isOutdated = sentAt <= changedAt || until <= receivedAt
      const isCovered = known?.refusal !== undefined && known.until > receivedAt && known.refusal.minCost < minCost
      if (isOutdated || isCovered) {
        return
      }
      const key = known ?? new RefusedKey()
      key.refusal = { decision, isImpossible, block, receivedAt, minCost, maxCosts }
      key.until = until
      key.isLong = until - receivedAt >= LONG * (receivedAt - sentAt)
      if (known === undefined) {
        this.#keys.set(id, key)
      }
    })
  }

  /** The least number of all limits of each policy. */
  #leastOf(field: 'capacity' | 'remaining', { policies }: Decision): readonly number[] {
    const least = this.#policySet.policies.map(() => Number.POSITIVE_INFINITY)
    for (const { name, policy } of this.#policySet.limits) {
      least[policy] = Math.min(least[policy] as number, policies[name]?.[field] as number)
    }
    return least
  }

  #forEachId({ keys, tag }: Keys, visit: (id: string, part: RefusingPart, index: number) => void): void {
    this.#parts.parts.forEach((part, index) => {
      const key = keys[part.dimension]
      if (typeof key === 'string') {
        visit(idOf(key, index, tag), part, index)
      }
    })
  }
}

/** The time until the limits of a part admit the call, if they refused it; otherwise 0. */
function retryOf({ policies, status }: Decision, { limits }: RefusingPart): number {
  let longest = 0
  for (const name of limits) {
    const retryAfterMs = policies[name]?.retryAfterMs
    // Without the impossible limits the others might admit the call, or not.
    if (retryAfterMs === null) {
      longest = Number.POSITIVE_INFINITY
    } else if (status !== 'impossible') {
      longest = Math.max(longest, retryAfterMs ?? 0)
    }
  }
  return longest
}

/** The block of a part's key in a decision: of its limits, the last to end. */
function blockOf(decision: Decision, { limits }: RefusingPart, sentAt: number): KeyBlock | undefined {
  if (decision.status !== 'blocked') {
    return undefined
  }
  const blocks = blocksOf(decision)
  if (blocks === undefined) {
    // The embedded store reports no block of a single limit.
    return { until: Number.POSITIVE_INFINITY, ban: decision.ban }
  }
  let [endsAt, ban] = [0, undefined as KeyBlock['ban']]
  for (const name of limits) {
    const block = blocks.get(name)
    if (block !== undefined) {
      endsAt = Math.max(endsAt, block.until)
      if (block.step > 0 && block.until > (ban?.until ?? 0)) {
        ban = { step: block.step, until: block.until }
      }
    }
  }
  // The end is rounded up, and the store decided after `sentAt`.
  return endsAt === 0 ? undefined : { until: sentAt + (endsAt - decision.at) - 1, ban }
}

/** Makes a call after those that wait. Its deadline counts from now. */
function behind<T>(waiting: NonNullable<RefusedKey['waiting']>, call: () => T | Promise<T>): Promise<T> {
  const since = currentMadeAt() ?? timers.now()
  return new Promise((resolve, reject) => {
    waiting.push({
      run() {
        try {
          resolve(madeAt(since, call))
        } catch (error) {
          reject(error)
        }
      },
    })
  })
}

function runAll(waiting: RefusedKey['waiting'] = []): void {
  for (const { run } of waiting) {
    run()
  }
}

function decisionIn(answer: object): Decision {
  return ('decision' in answer ? answer.decision : answer) as Decision
}
