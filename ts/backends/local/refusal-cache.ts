import type { Decision } from '../../api/decision.js'
import { Keys } from '../../input/keys.js'
import { timers } from '../../platform/timers.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { currentMadeAt, madeAt } from '../redis/batching/made-at.js'
import { scheduler } from '../redis/batching/scheduler.js'
import { BoundedMap, idOf } from './bounded-map.js'
import type { LocalOptions } from './local-options.js'
import { cachedDecision, cachedSingleDecision, type Refusal, RefusedKey } from './refused-key.js'

/**
 * A refusal is long if it lasts this many times as long as its call took. Only then do calls wait for
 * one another when it ends. At a rate whose units come back about as fast as answers, waiting calls
 * would get fewer units than there are.
 */
const LONG = 4

/** More changed keys than this are forgotten together: see {@link RefusalCache.forget}. */
const MAX_CHANGED = 1_000

/**
 * Refusals of the store, for as long as the store would refuse the same call again.
 *
 * The store decided a call that was sent at the local time `a` at `a` or later. With `retryAfterMs` r
 * it refuses the same cost for at least r − 1 ms from then on. So until a + r − 1 the store would
 * refuse each call that is refused here, unless something other than calls changes the key. The decision counts r from the arrival of the answer: a caller who waits that long
 * is not early.
 *
 * When a long refusal ends, one call asks the store, and other calls on that key wait for its answer.
 * If it is admitted and leaves r units, calls that take r units together ask without waiting, and
 * then again one. So a flood on a refused key costs the store one call for each refusal, and at most
 * two for each admitted call. Where no call may depend on the connection of another, calls ask
 * without waiting.
 */
export class RefusalCache {
  readonly #policySet: PolicySet
  readonly #isSingle: boolean
  readonly #maxMs: number
  readonly #now: () => number
  readonly #keys: BoundedMap<RefusedKey>
  /** The calls that the store is deciding. */
  #asking = 0
  /**
   * The times at which this limiter changed keys, while older answers may arrive. An answer to a call
   * that was sent before is out of date.
   */
  readonly #changedAt = new Map<string, number>()
  /** The same for all other keys. */
  #allChangedAt = Number.NEGATIVE_INFINITY

  constructor(policySet: PolicySet, { refusalsMs, maxKeys }: LocalOptions, now: () => number) {
    this.#policySet = policySet
    this.#isSingle = policySet.limits.length === 1
    this.#maxMs = refusalsMs
    this.#now = now
    this.#keys = new BoundedMap(maxKeys)
  }

  /** Whether refusals are cached. */
  get isOn(): boolean {
    return this.#maxMs > 0
  }

  /** The local time, for a call that is sent now. */
  get sentAt(): number {
    return this.#now()
  }

  /** Whether anything is known of a key without a tag. */
  has(key: unknown): boolean {
    return typeof key === 'string' && this.#keys.get(idOf(key, 0, undefined)) !== undefined
  }

  /** {@link decisionOn} for one key without a tag. */
  decisionOnKey(key: string, cost: number): Decision | undefined {
    if (!this.#isSingle) {
      return this.decisionOn(new Keys([key], undefined), cost)
    }
    const now = this.#now()
    const refusal = this.#keys.get(idOf(key, 0, undefined))?.refusalOf(cost, now)
    return refusal && cachedSingleDecision(refusal, now)
  }

  /** The decision on a call that the store would refuse; `undefined` if it must be asked. */
  decisionOn(keys: Keys, cost: number): Decision | undefined {
    if (this.#keys.size === 0) {
      return undefined
    }
    const now = this.#now()
    const refusals: (Refusal | undefined)[] = []
    this.#forEachId(keys, (id, dimension) => {
      const refusal = this.#keys.get(id)?.refusalOf(cost, now)
      if (refusal !== undefined) {
        refusals[dimension] = refusal
      }
    })
    return refusals.length === 0 ? undefined : cachedDecision(this.#policySet, refusals, now)
  }

  /**
   * Calls the store, unless calls on the same keys wait: then makes the call anew after them.
   *
   * @param again - Makes the call anew; it may be refused from the cache by then.
   */
  inTurn<T extends object>(
    keys: Keys,
    cost: number,
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
    this.#forEachId(keys, (id) => {
      const key = this.#keys.get(id)
      if (key !== undefined) {
        waiting ??= key.since <= since ? key.waiting : undefined
        if (key.waiting === undefined && probed === undefined && this.#isProbe(id, key, cost)) {
          probed = [id, key]
        }
      }
    })
    if (waiting !== undefined) {
      return behind(waiting, again)
    }
    return probed === undefined ? call() : this.#probe(...probed, call)
  }

  /** Remembers the refusal in an answer of the store. */
  learn<T>(
    answer: Promise<T>,
    keys: string | Keys,
    cost: number,
    sentAt: number,
    decisionIn: (answer: T) => Decision,
  ): Promise<T> {
    this.#asking++
    return answer.then(
      (value) => {
        const decision = decisionIn(value)
        if (!decision.allowed && decision.source === 'store') {
          this.#remember(typeof keys === 'string' ? new Keys([keys], undefined) : keys, cost, decision, sentAt)
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

  /** Forgets the refusals of keys, before the keys are changed. */
  forget(keys: Keys): void {
    this.#forEachId(keys, (id) => {
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
    if (this.#changedAt.size > MAX_CHANGED) {
      this.#allChangedAt = this.#now()
      this.#changedAt.clear()
    }
  }

  #onAnswer(): void {
    this.#asking--
    if (this.#asking === 0) {
      this.#changedAt.clear()
    }
  }

  /** Whether later calls on a key should wait for the answer to a call of this cost. */
  #isProbe(id: string, key: RefusedKey, cost: number): boolean {
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
    key.credit -= cost
    return key.credit < 0
  }

  /** Makes a call for whose answer later calls on the key wait. */
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
      key.credit = decision.remaining
      key.until = now + this.#maxMs
    } else {
      this.#keys.delete(id)
    }
  }

  #remember({ keys, tag }: Keys, cost: number, decision: Decision, sentAt: number): void {
    const receivedAt = this.#now()
    const maxCost =
      decision.status === 'impossible'
        ? Number.POSITIVE_INFINITY
        : Math.min(...Object.values(decision.policies).map(({ limit }) => limit))
    if (this.#policySet.ban !== undefined && decision.status !== 'impossible' && banEndOf(decision) === 0) {
      // The store has to count the next refusal: it may be a strike.
      return
    }
    const refusal = { decision, receivedAt, minCost: cost, maxCost }
    for (const [dimension, retryAfterMs] of this.#retries(decision)) {
      const id = idOf(keys[dimension] as string, dimension, tag)
      const until = sentAt + Math.min(retryAfterMs - 1, this.#maxMs)
      const changedAt = this.#changedAt.get(id) ?? this.#allChangedAt
      const known = this.#keys.get(id)
      const isOutdated = sentAt <= changedAt || until <= receivedAt
      const isCovered = known?.refusal !== undefined && known.until > receivedAt && known.refusal.minCost < cost
      if (isOutdated || isCovered) {
        continue
      }
      const key = known ?? new RefusedKey()
      key.refusal = refusal
      key.until = until
      key.isLong = until - receivedAt >= LONG * (receivedAt - sentAt)
      if (known === undefined) {
        this.#keys.set(id, key)
      }
    }
  }

  /** The time until the limits of each key dimension admit the call, if they refused it. */
  #retries(decision: Decision): Map<number, number> {
    const { policies, status } = decision
    // A key that refuses for a shorter time than the ban is not banned. Both times are rounded up.
    const banMs = this.#policySet.ban === undefined ? 0 : banEndOf(decision) - decision.at
    const retries = new Map<number, number>()
    for (const { name, policy } of this.#policySet.limits) {
      const { dimension } = this.#policySet.policies[policy] as PolicySet['policies'][number]
      const retryAfterMs = policies[name]?.retryAfterMs
      const retry = retryAfterMs === null ? Number.POSITIVE_INFINITY : (retryAfterMs ?? 0)
      // Without the impossible limits the others might admit the call, or not.
      if (retry > 0 && retry > banMs - 1 && (status !== 'impossible' || retryAfterMs === null)) {
        retries.set(dimension, Math.max(retry, retries.get(dimension) ?? 0))
      }
    }
    return retries
  }

  #forEachId({ keys, tag }: Keys, visit: (id: string, dimension: number) => void): void {
    keys.forEach((key, dimension) => {
      if (typeof key === 'string') {
        visit(idOf(key, dimension, tag), dimension)
      }
    })
  }
}

/** The end of the ban in epoch milliseconds; 0 if the decision has none. */
function banEndOf(decision: Decision): number {
  return decision.status === 'blocked' ? (decision.ban?.until ?? 0) : 0
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
