/**
 * A store for express-rate-limit: `tollgate/express-rate-limit`.
 *
 * @module tollgate/express-rate-limit
 */
import { createHash } from 'node:crypto'
import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { warnOfUndefinedStore } from '../api/limiter-options.js'
import type { RedisRateLimiterOptions } from '../api/rate-limiter.js'
import type { LimiterBackend } from '../backends/limiter-backend.js'
import { MemoryStore } from '../backends/memory/memory-store.js'
import { RedisStore } from '../backends/redis/redis-store.js'
import { sharedStore } from '../backends/redis/shared-stores.js'
import { microsOf, withoutWarnings } from '../input/duration.js'
import { isTooLong, Keys } from '../input/keys.js'
import { checkCount, invalid, optionsOf, prefixOf } from '../input/options.js'
import { reasonOf, Warnings, warn } from '../platform/warning.js'
import { fixedWindow } from '../policies/fixed-window.js'
import { policySetOf } from '../policies/policy-set.js'
import { errorForFramework, isStoreFailure } from './shared/store-failure.js'

/** The options of a {@link TollgateStore}. */
export interface TollgateStoreOptions {
  /**
   * The store that counts the hits. You close a store object yourself; a store given by its URL is closed with its last
   * user. Default: a new `MemoryStore`.
   */
  readonly store?: MemoryStore | RedisRateLimiterOptions['store']
  /**
   * Separates the keys of this `rateLimit()` from those of others on the same store: up to 64 letters, digits, `_`, `.`,
   * `-` and `:`, starting with a letter and not ending with a colon. Required with Redis. Instances with the same prefix
   * share their counts, in all processes, and should have the same `windowMs`. Otherwise each of them counts in windows
   * of its own length, and a warning names the prefix.
   */
  readonly prefix?: string
}

/** The number of hits of a client, and the time at which they reset. */
export interface ClientHits {
  readonly totalHits: number
  readonly resetTime: Date
}

/** The limit of the fixed window. express-rate-limit compares the hits with its own limit, which is always below. */
const LIMIT = Number.MAX_SAFE_INTEGER

/** The prefix of the digest that replaces a longer key. */
const DIGEST_PREFIX = 'sha256:'

/**
 * Counts the hits of express-rate-limit (7 or later) in tollgate's stores. To migrate, change `store` and nothing else.
 *
 * express-rate-limit decides itself, from the number of hits and their reset time, and also counts the calls that it
 * refuses. This store therefore uses a `fixedWindow` of the same `windowMs` with a limit out of reach, 2^53 − 1: a
 * window opens with a client's first hit, and every hit counts. If all hits of a window have been taken back, the next
 * hit opens a new window.
 *
 * Its methods accept surplus arguments, because a later version of express-rate-limit may pass more.
 *
 * Keys may have any length. Keys of more than 1024 bytes are counted by their SHA-256. A key that is not a string is
 * converted to one, such as `undefined`, as by the stores of express-rate-limit. The first key that is empty or not a
 * string emits a process warning with the code `TOLLGATE_INVALID_INPUT`.
 *
 * Every method that returns a promise, except `decrement`, rejects with a `TollgateError`: `CLOSED`; `INVALID_OPTION`
 * until the store is passed to a `rateLimit()`; over Redis also `STORE_UNAVAILABLE`, `STORE_TIMEOUT`, `STORE_ERROR` and
 * `OVERLOADED`, which the option `passOnStoreError` handles. Without it Express answers such an error of `increment`
 * with status 503. Express may send its message to the client, so the failure itself is its `cause`. The first one
 * emits a process warning with the code `TOLLGATE_NO_DECISION`.
 *
 * @example
 * app.use(rateLimit({ windowMs: 60_000, limit: 100, store: new TollgateStore({ store: redis, prefix: 'api' }) }))
 */
export class TollgateStore {
  /** Whether no other instance can count the same clients. express-rate-limit detects requests counted twice by it. */
  readonly localKeys: boolean
  /** The prefix, if the options have one. */
  readonly prefix?: string
  /** Resets all clients. Exists only for a private store: a shared store also has clients of other instances. */
  readonly resetAll?: () => Promise<void>
  /** Whether the store has a clock of its own. */
  readonly #isRemote: boolean
  readonly #open: (windowMs: number) => LimiterBackend
  readonly #release: () => Promise<void>
  #windowMs: number | undefined
  readonly #warnings = new Warnings()
  #hasWarned = false
  /** The backend that counts the hits, or the error with which all calls fail. */
  #backend: LimiterBackend | TollgateError = new TollgateError(
    'INVALID_OPTION',
    'TollgateStore must be passed to rateLimit()',
  )

  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options: TollgateStoreOptions = {}) {
    checkCount(arguments.length, 1, 'TollgateStore takes an object of options')
    const given = optionsOf('INVALID_OPTION', 'TollgateStore', options, ['store', 'prefix'])
    warnOfUndefinedStore(given)
    const prefix = given.prefix === undefined ? undefined : prefixOf(given.prefix)
    const { store, release } = storeOf(given.store)
    if (store?.address !== undefined && prefix === undefined) {
      void release()
      throw new TollgateError('INVALID_OPTION', 'prefix is required with Redis: it separates the keys of limiters')
    }
    this.localKeys = store === undefined
    if (prefix !== undefined) {
      this.prefix = prefix
    }
    this.#isRemote = store?.address !== undefined
    this.#release = release
    this.#open = (windowMs) => {
      const policySet = policySetOf(withoutWarnings(() => fixedWindow({ limit: LIMIT, window: windowMs })))
      return (store ?? new MemoryStore()).open(prefix, policySet, undefined)
    }
    if (store === undefined) {
      this.resetAll = () => this.#reopen()
    }
  }

  /**
   * Sets the length of the windows. express-rate-limit calls it once.
   *
   * @throws {TollgateError} `INVALID_POLICY` for an impossible length; `INVALID_OPTION` for a length that differs from an
   * earlier call, and while a limiter with policies of another kind has the prefix open. express-rate-limit only logs
   * the error, so all later calls fail with it.
   */
  init({ windowMs }: { readonly windowMs: number }): void {
    try {
      if (this.#windowMs !== undefined && this.#windowMs !== windowMs) {
        throw invalid('INVALID_OPTION', 'windowMs', `must be ${this.#windowMs}, as in the first call`, windowMs)
      }
      if (this.#windowMs === undefined) {
        this.#backend = this.#open(windowMs)
        this.#windowMs = windowMs
      }
    } catch (error) {
      void this.#close(error as TollgateError)
      throw error
    }
  }

  /** A client's hits and their reset time; `undefined` if there are no hits. */
  async get(key: string): Promise<ClientHits | undefined> {
    const hits = this.#hitsOf(await this.#peek(key))
    return hits.totalHits === 0 ? undefined : hits
  }

  /** Counts a hit. */
  async increment(key: string): Promise<ClientHits> {
    const backend = this.#opened()
    if (typeof key !== 'string' || key === '') {
      const advice = 'all such requests share one limit: use skip, or return a key for them'
      this.#warnings.once(
        'TOLLGATE_INVALID_INPUT',
        `keyGenerator returned ${key === '' ? 'an empty string' : typeof key}: ${advice}`,
      )
    }
    try {
      return this.#hitsOf(await backend.take(keyOf(key), 1))
    } catch (error) {
      if (isStoreFailure(error)) {
        this.#warnings.once('TOLLGATE_NO_DECISION', `a hit was not counted: ${error.message}`)
      }
      throw errorForFramework(error)
    }
  }

  /**
   * Takes a hit of the open window back. Before version 8.6, express-rate-limit also takes back hits of earlier
   * windows, and the open window then admits one more, as with its own store.
   *
   * It never rejects: express-rate-limit 7 does not handle the rejection, and Node would end the process. A hit that
   * could not be taken back stays counted. The first such failure emits a process warning with the code
   * `TOLLGATE_DECREMENT`.
   */
  async decrement(key: string): Promise<void> {
    try {
      await this.#refundHit(key)
      this.#hasWarned = false
    } catch (error) {
      if (!this.#hasWarned) {
        this.#hasWarned = true
        warn('TOLLGATE_DECREMENT', `a hit was not taken back: ${reasonOf(error)}`)
      }
    }
  }

  async #refundHit(key: string): Promise<void> {
    const { at, remaining, resetAfterMs, marks } = await this.#peek(key)
    if (remaining < LIMIT) {
      // Refunds only the window that is open now.
      const atUs = microsOf(at)
      const { default: mark = 0 } = marks ?? {}
      await this.#opened().execute(keysOf(key), {
        kind: 'refund',
        source: 'store',
        units: 1,
        cost: 1,
        kept: 0,
        atUs,
        resetAtUs: [atUs + microsOf(resetAfterMs)],
        marks: [mark],
        used: [0],
      })
    }
  }

  /** Resets a client. */
  async resetKey(key: string): Promise<void> {
    await this.#opened().execute(keysOf(key), { kind: 'reset' })
  }

  /** Makes all later calls fail with `CLOSED`, and frees the prefix. May be called again. */
  async shutdown(): Promise<void> {
    await this.#close(new TollgateError('CLOSED', 'the store has been shut down'))
  }

  #opened(): LimiterBackend {
    if (this.#backend instanceof TollgateError) {
      throw this.#backend
    }
    return this.#backend
  }

  async #peek(key: string): Promise<Decision> {
    return (await this.#opened().execute(keysOf(key), { kind: 'peek', cost: 0 })).decision
  }

  /**
   * The numbers for express-rate-limit, which compares times with this machine's clock. Times of Redis are converted to
   * that clock. They may be late by the duration of the call, but are never early.
   */
  #hitsOf(decision: Decision): ClientHits {
    const { allowed, at, remaining, resetAfterMs, retryAfterMs } = decision
    const now = this.#isRemote ? Date.now() : at
    if (allowed) {
      return { totalHits: LIMIT - remaining, resetTime: new Date(now + resetAfterMs) }
    }
    // The key is blocked by a limiter with the same prefix and policy.
    return { totalHits: LIMIT, resetTime: new Date(now + (retryAfterMs ?? resetAfterMs)) }
  }

  async #reopen(): Promise<void> {
    const old = this.#opened()
    this.#backend = this.#open(this.#windowMs as number)
    await old.close()
  }

  async #close(error: TollgateError): Promise<void> {
    const backend = this.#backend
    this.#backend = error
    if (!(backend instanceof TollgateError)) {
      await backend.close()
    }
    await this.#release()
  }
}

/** The store of the options, if any, and a function that releases it. */
function storeOf(given: unknown): { store: MemoryStore | RedisStore | undefined; release: () => Promise<void> } {
  if (given === undefined || given instanceof MemoryStore || given instanceof RedisStore) {
    return { store: given, release: async () => {} }
  }
  if (typeof given !== 'string') {
    throw invalid('INVALID_OPTION', 'store', 'must be a MemoryStore, a RedisStore or a Redis URL', given)
  }
  const { store, release } = sharedStore(given)
  let closing: Promise<void> | undefined
  return { store, release: () => (closing ??= release()) }
}

/** The key that a client is counted by. An empty key, and a short one that looks like a digest, are hashed, too. */
function keyOf(value: unknown): string {
  const key = typeof value === 'string' ? value : textOf(value)
  if (!isTooLong(key) && key !== '' && !key.startsWith(DIGEST_PREFIX)) {
    return key
  }
  // As UTF-16, which keeps lone surrogates distinct.
  return `${DIGEST_PREFIX}${createHash('sha256').update(key, 'utf16le').digest('hex')}`
}

function textOf(value: unknown): string {
  try {
    return String(value)
  } catch {
    // An object without `toString`, such as a parsed query.
    return Object.prototype.toString.call(value)
  }
}

function keysOf(key: string): Keys {
  return new Keys([keyOf(key)], undefined)
}
