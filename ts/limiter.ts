import type { Decision } from './decision.js'
import { TollgateError } from './error.js'
import { invalid, nameOf, optionsOf, wholeNumber } from './options.js'
import { limitNamesOf, type Policy, policyOf } from './policy.js'
import { type Ledger, Store } from './store.js'

/** A store, and what is to be done when its limiter is closed. */
export interface OwnedStore {
  readonly store: Store
  release(): Promise<void>
}

/**
 * The limiter behind `RateLimiter`: it checks what users pass, and asks its ledger.
 *
 * It knows no particular store; `ownStore` makes the one it owns where none, or a URL, is given.
 */
export class Limiter {
  readonly policies: { readonly [name: string]: Policy }
  #ledger: Ledger | undefined
  readonly #owned: OwnedStore | undefined

  constructor(policy: unknown, options: unknown, ownStore: (url: string | undefined) => OwnedStore) {
    const given = optionsOf('INVALID_OPTION', 'RateLimiter', options ?? {}, ['store', 'prefix'])
    const { store } = given
    if (store !== undefined && typeof store !== 'string' && !(store instanceof Store)) {
      throw invalid('INVALID_OPTION', 'store', 'must be a MemoryStore, a RedisStore or a Redis URL', store)
    }
    const prefix = given.prefix === undefined ? undefined : nameOf('prefix', given.prefix)
    const checked = policyOf(policy)
    const names = limitNamesOf(checked) ?? ['default']
    this.policies = Object.freeze(Object.fromEntries(names.map((name) => [name, checked])))
    this.#owned = store instanceof Store ? undefined : ownStore(store)
    try {
      this.#ledger = (this.#owned?.store ?? (store as Store)).open(prefix, checked)
    } catch (error) {
      void this.#owned?.release()
      throw error
    }
  }

  // Not async: what a store promises would go through three more turns of the microtask queue.
  take(key: string, cost?: unknown): Promise<Decision> {
    try {
      return Promise.resolve(this.#open().take(key, cost === undefined ? 1 : unitsOf(cost, 1)))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  takeSync(key: string, cost?: unknown): Decision {
    const ledger = this.#open()
    if (!ledger.isSync) {
      throw new TollgateError('INVALID_OPTION', 'takeSync needs the embedded store: over Redis, await take')
    }
    return ledger.take(key, cost === undefined ? 1 : unitsOf(cost, 1)) as Decision
  }

  async peek(key: string, cost?: unknown): Promise<Decision> {
    return this.#open().peek(key, cost === undefined ? 1 : unitsOf(cost, 0))
  }

  async takeMany(keys: readonly string[], cost: unknown = 1): Promise<Decision[]> {
    const ledger = this.#open()
    if (!Array.isArray(keys)) {
      throw invalid('INVALID_KEY', 'keys', 'must be an array of keys', keys)
    }
    const results = await ledger.takeMany(keys, costsOf(cost, keys.length))
    const failed = results.filter((result) => result instanceof TollgateError)
    const [first] = failed
    if (first === undefined) {
      return results as Decision[]
    }
    const message = `${failed.length} of ${keys.length} keys failed, the first because ${first.message}`
    throw new TollgateError(first.code, message, { cause: first, results })
  }

  async reset(key: string): Promise<void> {
    return this.#open().reset(key)
  }

  async ready(): Promise<void> {
    return this.#open().ready()
  }

  async close(): Promise<void> {
    const ledger = this.#ledger
    this.#ledger = undefined
    if (ledger !== undefined) {
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
}

/** The units that a call asks for. */
function unitsOf(cost: unknown, least: number): number {
  if (typeof cost === 'object' && cost !== null && !Array.isArray(cost)) {
    const options = optionsOf('INVALID_OPTION', 'take', cost, ['cost'])
    return options.cost === undefined ? 1 : wholeNumber('INVALID_COST', 'cost', options.cost, least)
  }
  return wholeNumber('INVALID_COST', 'cost', cost, least)
}

/** The units for each of `count` keys. */
function costsOf(cost: unknown, count: number): number[] {
  if (!Array.isArray(cost)) {
    return new Array<number>(count).fill(unitsOf(cost, 1))
  }
  if (cost.length !== count) {
    const rule = `must have a cost for each of the ${count} keys`
    throw new TollgateError('INVALID_COST', `costs ${rule}, got ${cost.length}`)
  }
  return cost.map((one) => wholeNumber('INVALID_COST', 'cost', one))
}
