import * as native from '../../native.js'
import { compiledAll } from '../compiled.js'
import type { Compound } from '../compound.js'
import { TollgateError } from '../error.js'
import { invalid, optionsOf, translated, wholeNumber } from '../options.js'
import { Store } from '../store.js'
import { Batcher, Queue } from './batcher.js'
import { RedisLedger } from './ledger.js'
import { inRootContext } from './root-context.js'

/** The options of a {@link RedisStore}. */
export interface RedisStoreOptions {
  /** Where Redis is: `redis://[user[:password]@]host[:port][/database]` or `redis+unix:///path`. */
  readonly url: string
  /** How long one attempt to connect may take, in milliseconds. Default: 2000. */
  readonly connectTimeoutMs?: number
  /** When a call that has no answer fails, in milliseconds from the call. Default: 1000. */
  readonly commandTimeoutMs?: number
  /** How many calls may wait for an answer; one more is `OVERLOADED`. Default: 10,000. */
  readonly maxPending?: number
}

/** A day: longer than any deadline that makes sense. */
const LONGEST_TIMEOUT_MS = 86_400_000

const MOST_PENDING = 1_000_000

/**
 * Keeps the counts in Redis, for any number of processes.
 *
 * It connects in the background and again whenever the connection breaks. Redis's clock decides; a key's
 * value carries all that a decision needs, and its TTL is garbage collection only.
 *
 * @example
 * const store = new RedisStore('redis://localhost:6379')
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store, prefix: 'api' })
 */
export class RedisStore extends Store {
  readonly #native: native.RedisStore
  readonly #batcher: Batcher
  /** The prefixes that are open, and for how many limiters. */
  readonly #prefixes = new Map<string, { readonly queue: Queue; users: number }>()
  #closed = false

  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options: string | RedisStoreOptions) {
    super()
    const names = ['url', 'connectTimeoutMs', 'commandTimeoutMs', 'maxPending'] as const
    const given = optionsOf(
      'INVALID_OPTION',
      'RedisStore',
      typeof options === 'string' ? { url: options } : options,
      names,
    )
    const { url, connectTimeoutMs = 2_000, commandTimeoutMs = 1_000, maxPending = 10_000 } = given
    if (typeof url !== 'string') {
      throw invalid('INVALID_OPTION', 'url', 'must be a Redis URL', url)
    }
    const connect = wholeNumber('INVALID_OPTION', 'connectTimeoutMs', connectTimeoutMs, 1, LONGEST_TIMEOUT_MS)
    const timeoutMs = wholeNumber('INVALID_OPTION', 'commandTimeoutMs', commandTimeoutMs, 1, LONGEST_TIMEOUT_MS)
    const most = wholeNumber('INVALID_OPTION', 'maxPending', maxPending, 1, MOST_PENDING)
    // The native store holds the function that it calls, which must not hold the store: a store that is not
    // used any more, and was not closed, would never be collected. While calls wait, their timer holds it.
    let batcher: WeakRef<Batcher> | undefined
    const settle: ConstructorParameters<typeof native.RedisStore>[2] = (round, answers, texts) =>
      batcher?.deref()?.settle(round, { answers, texts })
    // The message has no URL: it may hold a password.
    const make = () => new native.RedisStore(url, connect, settle)
    this.#native = translated('INVALID_OPTION', 'url', () => inRootContext(make))
    this.#batcher = new Batcher(this.#native, timeoutMs, most)
    batcher = new WeakRef(this.#batcher)
  }

  /**
   * Refuses further calls with `CLOSED`, waits for the calls under way, and drops the connection. May be
   * called again.
   */
  async close(): Promise<void> {
    this.#closed = true
    await this.#batcher.close()
    this.#native.close()
  }

  /** {@link close}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** @internal */
  override open(prefix: string | undefined, compound: Compound, tag: string | undefined): RedisLedger {
    if (prefix === undefined) {
      throw new TollgateError('INVALID_OPTION', 'prefix is required with Redis: it sets the keys of limiters apart')
    }
    if (this.#closed) {
      throw new TollgateError('CLOSED', 'the store has been closed')
    }
    const policies = compiledAll(compound)
    const ledger = translated('INVALID_OPTION', `prefix ${JSON.stringify(prefix)}`, () =>
      this.#native.open(prefix, policies),
    )
    const shared = this.#prefixes.get(prefix) ?? { queue: new Queue(ledger), users: 0 }
    this.#prefixes.set(prefix, shared)
    shared.users++
    const release = () => {
      ledger.close()
      shared.users--
      if (shared.users === 0) {
        this.#prefixes.delete(prefix)
      }
    }
    const home = { native: this.#native, batcher: this.#batcher }
    return new RedisLedger(home, shared.queue, compound, tag, release)
  }
}
