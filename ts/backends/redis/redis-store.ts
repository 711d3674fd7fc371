import type * as native from '../../../native.js'
import { TollgateError } from '../../api/error.js'
import { CLIENT_ADVICE, isClient } from '../../api/limiter-options.js'
import { checkCount, invalid, optionsOf, translated, wholeNumber } from '../../input/options.js'
import type { PolicySet } from '../../policies/policy-set.js'
import * as addon from '../addon.js'
import { compilePolicySet } from '../compile-policies.js'
import { Store } from '../limiter-backend.js'
import { Batcher, CallQueue } from './batching/batcher.js'
import { callWeightOf } from './batching/call-weight.js'
import { RedisBackend } from './batching/redis-backend.js'
import { inRootContext } from './batching/root-context.js'
import { requestCredentials } from './credentials.js'
import { Health, type StoreEvents, type StoreStatus } from './health.js'
import type { RedisStoreOptions } from './options.js'
import { PolicyRegistry, REGISTRY_TTL_MS } from './policy-registry.js'
import { addressOf, targetOf } from './target.js'

/** A day: longer than any sensible deadline. */
const MAX_TIMEOUT_MS = 86_400_000

const MAX_PENDING = 1_000_000

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

/** The callbacks of the native store. */
type NativeCallbacks =
  ConstructorParameters<typeof addon.NativeRedisStore> extends [unknown, ...infer Rest] ? Rest : never

/**
 * Whether responses can be read in the event loop. Bun only stubs libuv's functions: it aborts when
 * they are called.
 */
const HAS_LIBUV = process.versions.uv !== undefined && !('bun' in process.versions) && !('deno' in process.versions)

/**
 * Keeps the counts in Redis, for any number of processes.
 *
 * It connects in the background, and reconnects whenever the connection breaks. Redis's clock
 * decides. The value of a key has everything that a decision needs; its TTL is only for garbage
 * collection.
 *
 * @example
 * const store = new RedisStore('redis://localhost:6379')
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store, prefix: 'api' })
 */
export class RedisStore extends Store {
  /** @internal */
  override readonly address: string
  /** @internal */
  override readonly engine = addon.engine
  readonly #native: native.NativeRedisStore
  readonly #batcher: Batcher<native.NativeRedisStore, Health>
  /** The open prefixes, with the number of limiters of each. */
  readonly #prefixes = new Map<string, { readonly queue: CallQueue; users: number }>()
  readonly #health = new Health()
  #closed = false

  /**
   * @param url - The URL of Redis.
   * @param options - All other options.
   * @throws {TollgateError} `INVALID_OPTION`
   */
  constructor(url: string, options?: Omit<RedisStoreOptions, 'url'>)
  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options: string | RedisStoreOptions)
  constructor(...args: readonly [string | RedisStoreOptions, Omit<RedisStoreOptions, 'url'>?]) {
    super()
    const options = optionsOfArguments(args)
    const { connectTimeoutMs = 2_000, commandTimeoutMs = 1_000, maxPending = 10_000, credentials } = options
    const connectMs = wholeNumber('INVALID_OPTION', 'connectTimeoutMs', connectTimeoutMs, 1, MAX_TIMEOUT_MS)
    const timeoutMs = wholeNumber('INVALID_OPTION', 'commandTimeoutMs', commandTimeoutMs, 1, MAX_TIMEOUT_MS)
    const max = wholeNumber('INVALID_OPTION', 'maxPending', maxPending, 1, MAX_PENDING)
    const target = targetOf(options, connectMs, timeoutMs)
    // The native store references its callbacks, so they must not reference the store: otherwise an
    // unused store that was not closed would never be collected. While calls are pending, their
    // timer references it.
    let own: WeakRef<Batcher<native.NativeRedisStore, Health>> | undefined
    const onFlushDone: NativeCallbacks[0] = (flush, numbers, texts, calls) =>
      own?.deref()?.complete(flush, { numbers, texts }, calls ?? undefined)
    const onEvent: NativeCallbacks[1] = (kind, values) => {
      const batcher = own?.deref()
      if (kind === 'login' && credentials !== undefined) {
        void requestCredentials(credentials, (...login) => batcher?.native.login(Number(values[0]), ...login))
      } else if (kind === 'policies') {
        const [prefix = '', ...texts] = values
        batcher?.policyRegistry?.compare(prefix, texts)
      } else {
        batcher?.health.handleEvent(kind, values)
      }
    }
    const make = () => new addon.NativeRedisStore(target, onFlushDone, onEvent, HAS_LIBUV)
    this.#native = translated('INVALID_OPTION', 'RedisStore', () => inRootContext(make))
    const registry = createPolicyRegistry(this.#native, this.#health, timeoutMs)
    this.#batcher = new Batcher(this.#native, this.#health, timeoutMs, max, registry)
    own = new WeakRef(this.#batcher)
    this.address = addressOf(target)
  }

  /**
   * Exists only in `tollgate/wasm`. Throws with that advice.
   *
   * @internal
   */
  static from(): never {
    throw new TollgateError('INVALID_OPTION', `RedisStore of 'tollgate' connects by itself: ${CLIENT_ADVICE}`)
  }

  /** The current status of the store. */
  status(): StoreStatus {
    checkCount(arguments.length, 0, 'status takes no arguments')
    return { ...this.#health.status, pending: this.#batcher.pending }
  }

  /**
   * Adds a listener for events: the store is down, the store is up, or a warning. An error of a
   * listener becomes an uncaught exception.
   *
   * @returns A function that removes the listener.
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
   * Rejects further calls with `CLOSED`, waits for pending calls, and closes the connection. May be
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
  get batcher(): Batcher<native.NativeRedisStore, Health> {
    return this.#batcher
  }

  /** @internal */
  override open(prefix: string | undefined, policySet: PolicySet, tag: string | undefined): RedisBackend {
    if (prefix === undefined) {
      throw new TollgateError('INVALID_OPTION', 'prefix is required with Redis: it separates the keys of limiters')
    }
    if (this.#closed) {
      throw new TollgateError('CLOSED', 'the store has been closed')
    }
    const policies = compilePolicySet(addon.engine, policySet)
    const callBuffer = translated('INVALID_OPTION', `prefix ${JSON.stringify(prefix)}`, () =>
      this.#native.open(prefix, policies),
    )
    const shared = this.#prefixes.get(prefix) ?? { queue: new CallQueue(callBuffer, callWeightOf(policySet)), users: 0 }
    const registry = this.#batcher.policyRegistry
    if (shared.users === 0) {
      this.#prefixes.set(prefix, shared)
      registry?.add(prefix, policySet)
    }
    shared.users++
    const release = () => {
      callBuffer.close()
      shared.users--
      if (shared.users === 0) {
        this.#prefixes.delete(prefix)
        registry?.remove(prefix)
      }
    }
    const onFirstUse = () => registry?.markUsed(prefix)
    const context = { native: this.#native, batcher: this.#batcher, engine: this.engine, onFirstUse }
    return new RedisBackend(context, shared.queue, policySet, tag, release)
  }
}

/**
 * Not made in the constructor: its closures reference the store, and would share their context with
 * the native store's callbacks.
 */
function createPolicyRegistry(store: native.NativeRedisStore, { events }: Health, timeoutMs: number): PolicyRegistry {
  return new PolicyRegistry(
    (prefix, text) => store.registerPolicies(prefix, text, REGISTRY_TTL_MS, timeoutMs),
    (warning) => events.emit('warning', warning),
  )
}

/** The options of a store that is made by `(url)`, `(url, options)` or `(options)`. */
function optionsOfArguments(args: readonly unknown[]): RedisStoreOptions {
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
    throw new TollgateError('INVALID_OPTION', 'RedisStore has its URL as the first argument: omit the option url')
  }
  return { ...options, url: first } as RedisStoreOptions
}
