import { TollgateError } from '../../api/error.js'
import { CLIENT_ADVICE, isClient } from '../../api/limiter-options.js'
import { checkCount, invalid, optionsOf, translated, wholeNumber } from '../../input/options.js'
import type { Compound } from '../../policies/policy-set.js'
import * as native from '../addon.js'
import { compiledAll } from '../compiled.js'
import { Store } from '../limiter-backend.js'
import { Batcher, Queue } from './batching/batcher.js'
import { weightOf } from './batching/call-weight.js'
import { RedisLedger } from './batching/redis-backend.js'
import { inRootContext } from './batching/root-context.js'
import { login } from './credentials.js'
import { Health, type StoreEvents, type StoreStatus } from './health.js'
import type { RedisStoreOptions } from './options.js'
import { NOTED_MS, NotedPolicies } from './policy-registry.js'
import { addressOf, targetOf } from './target.js'

/** A day: longer than any deadline that makes sense. */
const LONGEST_TIMEOUT_MS = 86_400_000

const MOST_PENDING = 1_000_000

const OPTIONS = [
  'url',
  'host',
  'port',
  'path',
  'sentinel',
  'cluster',
  'username',
  'password',
  'credentials',
  'database',
  'tls',
  'connectTimeoutMs',
  'commandTimeoutMs',
  'maxPending',
] as const

const EVENTS: readonly (keyof StoreEvents)[] = ['down', 'up', 'warning']

/** The functions that the native store calls. */
type Heard = ConstructorParameters<typeof native.RedisStore> extends [unknown, ...infer Rest] ? Rest : never

/** Whether answers can be read in the event loop. Bun has libuv's functions in name alone: it aborts when they are called. */
const HAS_LIBUV = process.versions.uv !== undefined && !('bun' in process.versions) && !('deno' in process.versions)

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
  /** @internal */
  override readonly address: string
  /** @internal */
  override readonly engine = native.engine
  readonly #native: native.RedisStore
  readonly #batcher: Batcher<native.RedisStore, Health>
  /** The prefixes that are open, and for how many limiters. */
  readonly #prefixes = new Map<string, { readonly queue: Queue; users: number }>()
  readonly #health = new Health()
  #closed = false

  /**
   * @param url - Where Redis is.
   * @param options - All other options.
   * @throws {TollgateError} `INVALID_OPTION`
   */
  constructor(url: string, options?: Omit<RedisStoreOptions, 'url'>)
  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options: string | RedisStoreOptions)
  constructor(...args: readonly [string | RedisStoreOptions, Omit<RedisStoreOptions, 'url'>?]) {
    super()
    const given = optionsGiven(args)
    const { connectTimeoutMs = 2_000, commandTimeoutMs = 1_000, maxPending = 10_000, credentials } = given
    const connectMs = wholeNumber('INVALID_OPTION', 'connectTimeoutMs', connectTimeoutMs, 1, LONGEST_TIMEOUT_MS)
    const timeoutMs = wholeNumber('INVALID_OPTION', 'commandTimeoutMs', commandTimeoutMs, 1, LONGEST_TIMEOUT_MS)
    const most = wholeNumber('INVALID_OPTION', 'maxPending', maxPending, 1, MOST_PENDING)
    const target = targetOf(given, connectMs, timeoutMs)
    // The native store holds the functions that it calls, which must not hold the store: a store that is not
    // used any more, and was not closed, would never be collected. While calls wait, their timer holds it.
    let own: WeakRef<Batcher<native.RedisStore, Health>> | undefined
    const settle: Heard[0] = (round, answers, texts, calls) =>
      own?.deref()?.settle(round, { answers, texts }, calls ?? undefined)
    const notice: Heard[1] = (kind, words) => {
      const batcher = own?.deref()
      if (kind === 'login' && credentials !== undefined) {
        void login(credentials, (...told) => batcher?.native.login(Number(words[0]), ...told))
      } else if (kind === 'policies') {
        const [prefix = '', ...texts] = words
        batcher?.notedPolicies?.heard(prefix, texts)
      } else {
        batcher?.health.heard(kind, words)
      }
    }
    const make = () => new native.RedisStore(target, settle, notice, HAS_LIBUV)
    this.#native = translated('INVALID_OPTION', 'RedisStore', () => inRootContext(make))
    const noted = notedPolicies(this.#native, this.#health, timeoutMs)
    this.#batcher = new Batcher(this.#native, this.#health, timeoutMs, most, noted)
    own = new WeakRef(this.#batcher)
    this.address = addressOf(target)
  }

  /**
   * Of `tollgate/wasm` alone: says so.
   *
   * @internal
   */
  static from(): never {
    throw new TollgateError('INVALID_OPTION', `RedisStore of 'tollgate' connects by itself: ${CLIENT_ADVICE}`)
  }

  /** How the store is just now. */
  status(): StoreStatus {
    checkCount(arguments.length, 0, 'status takes no arguments')
    return { ...this.#health.status, pending: this.#batcher.pending }
  }

  /**
   * Hears when the store is down, when it is up, and of what should not remain as it is. A listener that throws is
   * an uncaught exception.
   *
   * @returns A function that ends it.
   */
  on<Name extends keyof StoreEvents>(event: Name, listener: (event: StoreEvents[Name]) => void): () => void {
    checkCount(arguments.length, 2, 'on takes an event and a listener')
    if (!EVENTS.includes(event)) {
      throw invalid('INVALID_OPTION', 'event', `must be one of ${EVENTS.join(', ')}`, event)
    }
    if (typeof listener !== 'function') {
      throw invalid('INVALID_OPTION', 'listener', 'must be a function', listener)
    }
    return this.#health.events.on(event, listener)
  }

  /**
   * Refuses further calls with `CLOSED`, waits for the calls under way, and drops the connection. May be
   * called again.
   */
  async close(): Promise<void> {
    this.#closed = true
    this.#health.close()
    await this.#batcher.close()
    this.#native.close()
  }

  /** {@link close}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** @internal */
  get batcher(): Batcher<native.RedisStore, Health> {
    return this.#batcher
  }

  /** @internal */
  override open(prefix: string | undefined, compound: Compound, tag: string | undefined): RedisLedger {
    if (prefix === undefined) {
      throw new TollgateError('INVALID_OPTION', 'prefix is required with Redis: it sets the keys of limiters apart')
    }
    if (this.#closed) {
      throw new TollgateError('CLOSED', 'the store has been closed')
    }
    const policies = compiledAll(native.engine, compound)
    const ledger = translated('INVALID_OPTION', `prefix ${JSON.stringify(prefix)}`, () =>
      this.#native.open(prefix, policies),
    )
    const shared = this.#prefixes.get(prefix) ?? { queue: new Queue(ledger, weightOf(compound)), users: 0 }
    const noted = this.#batcher.notedPolicies
    if (shared.users === 0) {
      this.#prefixes.set(prefix, shared)
      noted?.open(prefix, compound)
    }
    shared.users++
    const release = () => {
      ledger.close()
      shared.users--
      if (shared.users === 0) {
        this.#prefixes.delete(prefix)
        noted?.close(prefix)
      }
    }
    const used = () => noted?.used(prefix)
    const home = { native: this.#native, batcher: this.#batcher, engine: this.engine, used }
    return new RedisLedger(home, shared.queue, compound, tag, release)
  }
}

/** Not made in the constructor: its functions hold the store, and share what they hold with those that the native store calls. */
function notedPolicies(store: native.RedisStore, { events }: Health, timeoutMs: number): NotedPolicies {
  return new NotedPolicies(
    (prefix, text) => store.notePolicies(prefix, text, NOTED_MS, timeoutMs),
    (warning) => events.emit('warning', warning),
  )
}

/** The options of a store that is made by `(url)`, `(url, options)` or `(options)`. */
function optionsGiven(args: readonly unknown[]): RedisStoreOptions {
  const [first, second] = args
  const isUrl = typeof first === 'string'
  if (isClient(first)) {
    throw new TollgateError('INVALID_OPTION', `RedisStore connects by itself: ${CLIENT_ADVICE}`)
  }
  const rule = isUrl ? 'a URL and an object of options' : 'nothing after an object of options'
  checkCount(args.length, isUrl ? 2 : 1, `RedisStore takes ${rule}`, 'put all options in one object')
  const options =
    isUrl && second === undefined ? {} : optionsOf('INVALID_OPTION', 'RedisStore', isUrl ? second : first, OPTIONS)
  if (!isUrl) {
    return options as RedisStoreOptions
  }
  if (options.url !== undefined) {
    throw new TollgateError('INVALID_OPTION', 'RedisStore has its URL as the first argument: leave the option url out')
  }
  return { ...options, url: first } as RedisStoreOptions
}
