/**
 * A store for express-rate-limit: `tollgate/express-rate-limit`.
 *
 * @module tollgate/express-rate-limit
 */
import { createHash } from 'node:crypto'
import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import type { RedisUrl } from '../api/rate-limiter.js'
import type { Ledger } from '../backends/limiter-backend.js'
import { MemoryStore } from '../backends/memory/memory-store.js'
import { RedisStore } from '../backends/redis/redis-store.js'
import { sharedStore } from '../backends/redis/shared-stores.js'
import { microsOf, quietly } from '../input/duration.js'
import { Keys } from '../input/keys.js'
import { checkCount, invalid, nameOf, optionsOf } from '../input/options.js'
import { Warnings } from '../platform/warning.js'
import { fixedWindow } from '../policies/fixed-window.js'
import { compoundOf } from '../policies/policy-set.js'

/** The options of a {@link TollgateStore}. */
export interface TollgateStoreOptions {
  /**
   * Where the hits are counted. A store that was made by you is closed by you; one that is given by its URL, with the
   * last that uses it. Default: a `MemoryStore` of its own.
   */
  readonly store?: MemoryStore | RedisStore | RedisUrl
  /**
   * Sets the keys of this `rateLimit()` apart from those of others on the same store. Letters, digits, `_`, `.` and `-`, up
   * to 32, starting with a letter. Required with Redis. Those of one prefix share their counts, in all processes, and must
   * have the same `windowMs`.
   */
  readonly prefix?: string
}

/** How often a client has come, and when that is forgotten. */
export interface ClientHits {
  readonly totalHits: number
  readonly resetTime: Date
}

/** What is under the hits: far above any limit of express-rate-limit, which is the one that compares. */
const LIMIT = Number.MAX_SAFE_INTEGER

/** The longest key that stores take, in bytes of UTF-8. */
const MOST_BYTES = 1_024

/** What stands before the digest of a longer one. */
const DIGEST = 'sha256:'

/**
 * Counts the hits of express-rate-limit (7 or later) in tollgate's stores: change `store`, and nothing else.
 *
 * express-rate-limit decides by itself, from the number of hits and the time at which they end, and counts the calls that
 * it refuses. So under it is a `fixedWindow` of its `windowMs` whose limit, 2^53 − 1, is out of reach: a window opens with
 * a client's first hit, and every hit counts. It has no other law than express-rate-limit's. A window from which all hits
 * have been taken back is as if never opened: the next hit opens another.
 *
 * What express-rate-limit calls takes surplus arguments: a later version may pass more.
 *
 * Clients are keys of any length; those of more than 1024 bytes are counted by their SHA-256. As with the stores of
 * express-rate-limit, requests without a key share one: what is no text is counted by its text, such as `undefined`. The
 * first key that is no text or is empty is a process warning with the code `TOLLGATE_INVALID_INPUT`.
 *
 * Every method that returns a promise, but for `decrement`, rejects with a `TollgateError`: `CLOSED`; `INVALID_OPTION` as
 * long as it belongs to no `rateLimit()`; over Redis also `STORE_UNAVAILABLE`, `STORE_TIMEOUT`, `STORE_ERROR` and `OVERLOADED`,
 * which `passOnStoreError` is for.
 *
 * @example
 * app.use(rateLimit({ windowMs: 60_000, limit: 100, store: new TollgateStore({ store: redis, prefix: 'api' }) }))
 */
export class TollgateStore {
  /** Whether no other instance can count the same clients: express-rate-limit looks for requests counted twice. */
  readonly localKeys: boolean
  /** The prefix, if one was given. */
  readonly prefix?: string
  /** Forgets all clients. Only where the store is its own: on others there are those of other instances, too. */
  readonly resetAll?: () => Promise<void>
  /** Whether the store's clock is another than this machine's. */
  readonly #isRemote: boolean
  readonly #open: (windowMs: number) => Ledger
  readonly #release: () => Promise<void>
  #windowMs: number | undefined
  readonly #warnings = new Warnings()
  #hasWarned = false
  /** The hits, or why there are none. */
  #ledger: Ledger | TollgateError = new TollgateError('INVALID_OPTION', 'TollgateStore must be passed to rateLimit()')

  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options: TollgateStoreOptions = {}) {
    checkCount(arguments.length, 1, 'TollgateStore takes an object of options')
    const given = optionsOf('INVALID_OPTION', 'TollgateStore', options, ['store', 'prefix'])
    const prefix = given.prefix === undefined ? undefined : nameOf('prefix', given.prefix)
    const { store, release } = storeOf(given.store)
    if (store?.address !== undefined && prefix === undefined) {
      void release()
      throw new TollgateError('INVALID_OPTION', 'prefix is required with Redis: it sets the keys of limiters apart')
    }
    this.localKeys = store === undefined
    if (prefix !== undefined) {
      this.prefix = prefix
    }
    this.#isRemote = store?.address !== undefined
    this.#release = release
    this.#open = (windowMs) => {
      const compound = compoundOf(quietly(() => fixedWindow({ limit: LIMIT, window: windowMs })))
      return (store ?? new MemoryStore()).open(prefix, compound, undefined)
    }
    if (store === undefined) {
      this.resetAll = () => this.#startAnew()
    }
  }

  /**
   * Learns how long windows are: express-rate-limit calls it once.
   *
   * @throws {TollgateError} `INVALID_POLICY` for a length that cannot be; `INVALID_OPTION` for another than before, or
   * than others of its prefix have. express-rate-limit only logs it: so all calls fail with it from then on.
   */
  init({ windowMs }: { readonly windowMs: number }): void {
    try {
      if (this.#windowMs !== undefined && this.#windowMs !== windowMs) {
        throw invalid('INVALID_OPTION', 'windowMs', `must be ${this.#windowMs}, as it was before`, windowMs)
      }
      if (this.#windowMs === undefined) {
        this.#ledger = this.#open(windowMs)
        this.#windowMs = windowMs
      }
    } catch (error) {
      void this.#end(error as TollgateError)
      throw error
    }
  }

  /** A client's hits and when they end; `undefined` if there are none. */
  async get(key: string): Promise<ClientHits | undefined> {
    const hits = this.#hitsOf(await this.#peek(key))
    return hits.totalHits === 0 ? undefined : hits
  }

  /** Counts a hit. */
  async increment(key: string): Promise<ClientHits> {
    const ledger = this.#opened()
    if (typeof key !== 'string' || key === '') {
      const advice = 'requests that it has no other key for share one limit: use skip, or give them a key'
      this.#warnings.once(
        'TOLLGATE_INVALID_INPUT',
        `keyGenerator returned ${key === '' ? 'an empty text' : typeof key}: ${advice}`,
      )
    }
    return this.#hitsOf(await ledger.take(keyOf(key), 1))
  }

  /**
   * Takes a hit back, if the window is still open.
   *
   * It never rejects: express-rate-limit 7 leaves a rejection to nobody, and Node would end the process for it. A hit that
   * could not be taken back counts on; the first of them is a process warning with the code `TOLLGATE_DECREMENT`.
   */
  async decrement(key: string): Promise<void> {
    try {
      await this.#takeBack(key)
      this.#hasWarned = false
    } catch (error) {
      if (!this.#hasWarned) {
        this.#hasWarned = true
        process.emitWarning(`a hit was not taken back: ${(error as Error).message}`, { code: 'TOLLGATE_DECREMENT' })
      }
    }
  }

  async #takeBack(key: string): Promise<void> {
    const { at, remaining, resetAfterMs } = await this.#peek(key)
    if (remaining < LIMIT) {
      // Of the window that is open now, and of none that has opened meanwhile.
      const atUs = microsOf(at)
      const taken = { units: 1, atUs, resetAtUs: [atUs + microsOf(resetAfterMs)] }
      await this.#opened().perform(keysOf(key), { kind: 'refund', source: 'store', ...taken })
    }
  }

  /** Forgets a client. */
  async resetKey(key: string): Promise<void> {
    await this.#opened().perform(keysOf(key), { kind: 'reset' })
  }

  /** Refuses further calls with `CLOSED`, and frees the prefix. May be called again. */
  async shutdown(): Promise<void> {
    await this.#end(new TollgateError('CLOSED', 'the store has been shut down'))
  }

  #opened(): Ledger {
    if (this.#ledger instanceof TollgateError) {
      throw this.#ledger
    }
    return this.#ledger
  }

  async #peek(key: string): Promise<Decision> {
    return (await this.#opened().perform(keysOf(key), { kind: 'peek', cost: 0 })).decision
  }

  /**
   * What express-rate-limit is told. It compares times with this machine's clock: over Redis they are by that, and late by
   * as long as the answer took, but never early.
   */
  #hitsOf(decision: Decision): ClientHits {
    const { allowed, at, remaining, resetAfterMs, retryAfterMs } = decision
    const now = this.#isRemote ? Date.now() : at
    if (allowed) {
      return { totalHits: LIMIT - remaining, resetTime: new Date(now + resetAfterMs) }
    }
    // Somebody has blocked the key, by a limiter of the same prefix and policy.
    return { totalHits: LIMIT, resetTime: new Date(now + (retryAfterMs ?? resetAfterMs)) }
  }

  async #startAnew(): Promise<void> {
    const old = this.#opened()
    this.#ledger = this.#open(this.#windowMs as number)
    await old.close()
  }

  async #end(why: TollgateError): Promise<void> {
    const ledger = this.#ledger
    this.#ledger = why
    if (!(ledger instanceof TollgateError)) {
      await ledger.close()
    }
    await this.#release()
  }
}

/** The store that is meant, if it is not to be one of its own, and how to let go of it. */
function storeOf(given: unknown): { store: MemoryStore | RedisStore | undefined; release: () => Promise<void> } {
  if (given === undefined || given instanceof MemoryStore || given instanceof RedisStore) {
    return { store: given, release: async () => {} }
  }
  if (typeof given !== 'string') {
    throw invalid('INVALID_OPTION', 'store', 'must be a MemoryStore, a RedisStore or a Redis URL', given)
  }
  const { store, release } = sharedStore(given)
  let released: Promise<void> | undefined
  return { store, release: () => (released ??= release()) }
}

/** What a client is counted by. A short key that looks like a digest has one of its own, and so has an empty one. */
function keyOf(value: unknown): string {
  const key = typeof value === 'string' ? value : textOf(value)
  const isLong = key.length * 3 > MOST_BYTES && Buffer.byteLength(key) > MOST_BYTES
  if (!isLong && key !== '' && !key.startsWith(DIGEST)) {
    return key
  }
  // In UTF-16, where lone surrogates are told apart.
  return `${DIGEST}${createHash('sha256').update(key, 'utf16le').digest('hex')}`
}

function textOf(value: unknown): string {
  try {
    return String(value)
  } catch {
    // An object without a `toString`, such as a parsed query.
    return Object.prototype.toString.call(value)
  }
}

function keysOf(key: string): Keys {
  return new Keys([keyOf(key)], undefined)
}
