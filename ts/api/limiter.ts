import { openGuarded } from '../backends/fallback/on-store-failure.js'
import { type Answers, answersOf, type Ledger, Store } from '../backends/limiter-backend.js'
import { appliedBy, type Operation, type Refund } from '../backends/operation.js'
import { microsOf } from '../input/duration.js'
import { KeyReader, Keys, tagOf } from '../input/keys.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../input/options.js'
import type { Policy } from '../policies/policy.js'
import { type Compound, compoundOf } from '../policies/policy-set.js'
import { callOf, callsOf, lastingOf, tagIn, unitsOf } from './call-options.js'
import type { Applied, Decision } from './decision.js'
import { notRefundable, type Refundable, refundable, stamped } from './decision-metadata.js'
import { TollgateError } from './error.js'
import { limiterOptionsOf } from './limiter-options.js'
import { overridden } from './override.js'
import { HOLD_BYTES, holdOf, type Reservation, reservationOf } from './reservation.js'
import { checkRates, type WaitedOrRefused, waitOf } from './wait.js'
import { abortedBy, Waiters } from './waiters.js'

/** What one call passes to another that passes more than was meant: `map` its index and its array. */
const inMap = (method: string) => `in a map, write (key) => limiter.${method}(key)`

/** What was probably meant by more arguments than these take. */
const ADVICE = {
  take: `put options in one object, { cost, tag }; ${inMap('take')}, or limiter.takeMany(keys)`,
  takeSync: `put options in one object, { cost, tag }; ${inMap('takeSync')}, or limiter.takeMany(keys)`,
  takeMany: 'write takeMany([key, …], [cost, …])',
  peek: `put options in one object, { cost, tag }; ${inMap('peek')}`,
  wait: `put options in one object, { cost, maxWaitMs }; ${inMap('wait')}`,
  reset: inMap('reset'),
  unblock: inMap('unblock'),
  clearOverride: inMap('clearOverride'),
}

/** A store, and what is to be done when its limiter is closed. */
export interface OwnedStore {
  readonly store: Store
  release(): Promise<void>
}

/**
 * The limiter behind `RateLimiter`: it checks what users pass, and asks its ledger.
 *
 * It knows no particular store; `ownStore` makes the one it owns where none, or a URL, is given.
 *
 * Every method asks its ledger before it first waits: so calls take effect in the order in which they are made.
 */
export class Limiter {
  readonly policies: { readonly [name: string]: Policy }
  readonly #compound: Compound
  readonly #keys: KeyReader
  /** Whether keys are strings. */
  readonly #isPlain: boolean
  readonly #waiters = new Waiters()
  #ledger: Ledger | undefined
  readonly #owned: OwnedStore | undefined

  constructor(policy: unknown, options: unknown, ownStore: (url: string | undefined) => OwnedStore) {
    const compound = compoundOf(policy)
    const { store, prefix, tag, onStoreFailure } = limiterOptionsOf(options)
    this.#compound = compound
    this.#keys = new KeyReader(compound.subjects)
    this.#isPlain = this.#keys.isPlain
    this.policies = byLimit(compound)
    this.#owned = store instanceof Store ? undefined : ownStore(store)
    try {
      const opened = this.#owned?.store ?? (store as Store)
      this.#ledger = openGuarded(opened, { prefix, compound, tag }, onStoreFailure)
    } catch (error) {
      void this.#owned?.release()
      throw error
    }
  }

  // Not async: what a store promises would go through three more turns of the microtask queue.
  take(key: unknown, cost?: unknown): Promise<Decision> {
    try {
      checkCount(arguments.length, 2, 'take takes a key and a cost or options', ADVICE.take)
      const ledger = this.#open()
      const taken = this.#take(ledger, key, cost)
      // While a store is away, what answers in its place may do so at once.
      return ledger.isSync ? resolved(taken as Decision) : Promise.resolve(taken)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  takeSync(key: unknown, cost?: unknown): Decision {
    checkCount(arguments.length, 2, 'takeSync takes a key and a cost or options', ADVICE.takeSync)
    const ledger = this.#open()
    if (!ledger.isSync) {
      throw new TollgateError('INVALID_OPTION', 'takeSync needs the embedded store: over Redis, await take')
    }
    return this.#take(ledger, key, cost) as Decision
  }

  async takeMany(keys: readonly unknown[], cost?: unknown): Promise<Decision[]> {
    checkCount(arguments.length, 2, 'takeMany takes an array of keys, and their costs or options', ADVICE.takeMany)
    const ledger = this.#open()
    if (!Array.isArray(keys)) {
      throw invalid('INVALID_KEY', 'keys', 'must be an array of keys', keys)
    }
    const { costs, tag } = callsOf(cost, keys.length)
    const isPlain = this.#isPlain && tag === undefined
    const results = await (isPlain ? ledger.takeMany(keys, costs) : this.#takeEach(ledger, keys, costs, tag))
    const failed = results.filter((result) => result instanceof TollgateError)
    const [first] = failed
    if (first === undefined) {
      return results as Decision[]
    }
    const message = `${failed.length} of ${keys.length} keys failed, the first because ${first.message}`
    throw new TollgateError(first.code, message, { cause: first, results })
  }

  async takeUpTo(key: unknown, units: unknown, options?: unknown): Promise<Decision & { readonly granted: number }> {
    checkCount(arguments.length, 3, 'takeUpTo takes a key, units and options')
    const ledger = this.#open()
    const keys = this.#keys.whole(key, tagIn('takeUpTo', options))
    const { decision, units: granted } = await ledger.perform(keys, { kind: 'takeUpTo', units: unitsOf(units) })
    const answer = { ...decision, granted }
    stamped(answer, ledger.origin, keys, granted)
    return answer
  }

  async peek(key: unknown, cost?: unknown): Promise<Decision> {
    checkCount(arguments.length, 2, 'peek takes a key and a cost or options', ADVICE.peek)
    const ledger = this.#open()
    const { units, tag } = callOf('peek', cost, 0)
    return (await ledger.perform(this.#keys.whole(key, tag), { kind: 'peek', cost: units })).decision
  }

  async reserve(key: unknown, units: unknown, options?: unknown): Promise<Reservation> {
    checkCount(arguments.length, 3, 'reserve takes a key, units and options')
    const ledger = this.#open()
    const { lastingUs, tag } = holdOf(this.#compound, options)
    const keys = this.#keys.whole(key, tag)
    const call = { units: unitsOf(units), hold: crypto.getRandomValues(new Uint8Array(HOLD_BYTES)), lastingUs }
    const { decision } = await ledger.perform(keys, { kind: 'reserve', ...call })
    return reservationOf(decision, call, (actual, expiresAtUs) => {
      const refund = this.#refundOf(decision, call.units)
      return this.#open().perform(keys, { ...refund, kind: 'settle', hold: call.hold, actual, expiresAtUs })
    })
  }

  async penalize(key: unknown, units: unknown = 1, options?: unknown): Promise<number> {
    checkCount(arguments.length, 3, 'penalize takes a key, units and options')
    const ledger = this.#open()
    const keys = this.#keys.whole(key, tagIn('penalize', options))
    return (await ledger.perform(keys, { kind: 'penalize', units: unitsOf(units) })).units
  }

  async refund(decision: unknown, units?: unknown): Promise<number> {
    checkCount(arguments.length, 2, 'refund takes a decision and units')
    const ledger = this.#open()
    const receipt = refundable(decision, ledger.origin)
    if (receipt === undefined) {
      throw notRefundable(decision)
    }
    const drawn = receipt.draw(units === undefined ? undefined : unitsOf(units))
    if (drawn === 0) {
      return 0
    }
    return giveBack(ledger, receipt, this.#refundOf(decision as Decision, drawn))
  }

  async wait(key: unknown, options?: unknown): Promise<WaitedOrRefused> {
    checkCount(arguments.length, 2, 'wait takes a key and options', ADVICE.wait)
    const ledger = this.#open()
    checkRates(this.#compound)
    const call = waitOf(options)
    const keys = this.#keys.whole(key, call.tag)
    if (call.signal?.aborted) {
      throw abortedBy(call.signal, false)
    }
    return this.#waiters.wait(ledger, keys, call)
  }

  async reset(key: unknown, options?: unknown): Promise<Applied> {
    checkCount(arguments.length, 2, 'reset takes a key and options', ADVICE.reset)
    return this.#change('reset', key, options, { kind: 'reset' })
  }

  async block(key: unknown, duration: unknown, options?: unknown): Promise<Applied> {
    checkCount(arguments.length, 3, 'block takes a key, a duration and options')
    return this.#change('block', key, options, { kind: 'block', lastingUs: lastingOf('block', 'duration', duration) })
  }

  async unblock(key: unknown, options?: unknown): Promise<Applied> {
    checkCount(arguments.length, 2, 'unblock takes a key and options', ADVICE.unblock)
    return this.#change('unblock', key, options, { kind: 'unblock' })
  }

  async override(key: unknown, numbers: unknown, options: unknown): Promise<Applied> {
    checkCount(arguments.length, 3, 'override takes a key, numbers and options')
    const ledger = this.#open()
    const policies = overridden(this.#compound, numbers)
    const { ttl, tag } = optionsOf('INVALID_OPTION', 'override', options, ['ttl', 'tag'])
    const lastingUs = lastingOf('override', 'ttl', ttl)
    const concerned = this.#compound.policies.filter((_, index) => policies[index] !== undefined)
    const subjects = new Set(concerned.map(({ subject }) => subject))
    const keys = this.#keys.needed(key, tagOf(tag), subjects)
    return appliedBy(await ledger.perform(keys, { kind: 'override', policies, lastingUs }))
  }

  async clearOverride(key: unknown, options?: unknown): Promise<Applied> {
    checkCount(arguments.length, 2, 'clearOverride takes a key and options', ADVICE.clearOverride)
    return this.#change('clearOverride', key, options, { kind: 'clearOverride' })
  }

  // This and `close` take whatever they are given: handlers of signals and of promises pass arguments to what they call.
  async ready(): Promise<void> {
    return this.#open().ready()
  }

  async close(): Promise<void> {
    const ledger = this.#ledger
    this.#ledger = undefined
    if (ledger !== undefined) {
      const left = this.#waiters.close()
      if (left !== undefined) {
        await left
      }
      await ledger.close()
      await this.#owned?.release()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #open(): Ledger {
    if (this.#ledger === undefined) {
      throw new TollgateError('CLOSED', 'the limiter has been closed')
    }
    return this.#ledger
  }

  #take(ledger: Ledger, key: unknown, cost: unknown): Decision | Promise<Decision> {
    if (this.#isPlain && typeof cost !== 'object') {
      return ledger.take(key as string, cost === undefined ? 1 : wholeNumber('INVALID_COST', 'cost', cost))
    }
    const { units, tag } = callOf('take', cost, 1)
    if (this.#isPlain && tag === undefined) {
      return ledger.take(key as string, units)
    }
    return ledger.takeBy(this.#keys.whole(key, tag), units)
  }

  async #takeEach(
    ledger: Ledger,
    keys: readonly unknown[],
    costs: readonly number[],
    tag: string | undefined,
  ): Promise<Answers> {
    const calls = keys.map(async (key, index) => {
      return ledger.takeBy(this.#keys.whole(key, tag), costs[index] as number)
    })
    return answersOf(await Promise.allSettled(calls))
  }

  /** Changes what holds for those parts of a key that are named. */
  async #change(method: string, key: unknown, options: unknown, operation: Operation): Promise<Applied> {
    const ledger = this.#open()
    return appliedBy(await ledger.perform(this.#keys.some(key, tagIn(method, options)), operation))
  }

  /** What gives back units of a decision. */
  #refundOf({ at, policies, source }: Decision, units: number): Refund {
    const atUs = microsOf(at)
    const resetAtUs = this.#compound.policies.map(() => atUs)
    for (const { name, policy } of this.#compound.limits) {
      const resetAfterMs = policies[name]?.resetAfterMs ?? 0
      resetAtUs[policy] = Math.max(resetAtUs[policy] as number, atUs + microsOf(resetAfterMs))
    }
    return { kind: 'refund', source, units, atUs, resetAtUs }
  }
}

/**
 * A promise of a decision. One property is read first: then the engine knows which one this object's hidden class is, and
 * so that it has no `then` to be looked for, which takes 25 to 40 ns of an awaited `take`.
 */
function resolved(decision: Decision): Promise<Decision> {
  void decision.at
  return Promise.resolve(decision)
}

/** The policies by the names of the limits that decisions tell of. */
function byLimit({ policies, limits }: Compound): { readonly [name: string]: Policy } {
  return Object.freeze(Object.fromEntries(limits.map(({ name, policy }) => [name, policies[policy]?.policy as Policy])))
}

async function giveBack(ledger: Ledger, receipt: Refundable, refund: Refund): Promise<number> {
  const keys = typeof receipt.key === 'string' ? new Keys([receipt.key], undefined) : receipt.key
  try {
    return (await ledger.perform(keys, refund)).units
  } catch (error) {
    if (!TollgateError.is(error) || error.charged === false) {
      receipt.putBack(refund.units)
    }
    throw error
  }
}
