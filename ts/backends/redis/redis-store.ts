import type * as native from '../../../generated/native.js'
import { TollgateError } from '../../api/error.js'
import { CLIENT_ADVICE, isClient } from '../../api/limiter-options.js'
import { wholeMillis } from '../../input/duration.js'
import { checkCount, optionsOf, translated } from '../../input/options.js'
import { inRootContext } from '../../platform/root-context.js'
import type { PolicySet } from '../../policies/policy-set.js'
import * as addon from '../addon.js'
import { compilePolicySet } from '../compile-policies.js'
import { BatchedStore, checkedMaxPending, checkedTimeout, checkListener } from './batched-store.js'
import { Batcher } from './batching/batcher.js'
import { requestCredentials } from './credentials.js'
import { Health, type StoreEvents, type StoreStatus } from './health.js'
import type { RedisStoreOptions } from './options.js'
import { PolicyRegistry } from './policy-registry.js'
import { addressOf, DEFAULT_IDLE_CHECK_MS, targetOf } from './target.js'

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
  'connectTimeout',
  'commandTimeout',
  'idleCheck',
  'maxPending',
  'oneKeyPerScript',
] as const

/** The longest interval of health checks: an hour. */
const MAX_IDLE_CHECK_MS = 3_600_000

const EVENTS: readonly (keyof StoreEvents)[] = ['down', 'up', 'warning']

type NativeCallbacks =
  ConstructorParameters<typeof addon.NativeRedisStore> extends [unknown, ...infer Rest] ? Rest : never

/** Whether responses can be read in the event loop. Bun only stubs libuv's functions, and aborts. */
const HAS_LIBUV = process.versions.uv !== undefined && !('bun' in process.versions) && !('deno' in process.versions)

/**
 * Keeps the counts in Redis, for any number of processes. It connects in the background, and reconnects by
 * itself. Redis's clock decides.
 *
 * @example
 * const store = new RedisStore('redis://localhost:6379')
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store, prefix: 'api' })
 */
export class RedisStore extends BatchedStore {
  /** @internal */
  override readonly address: string
  /** @internal */
  override readonly engine = addon.engine
  /** @internal */
  override readonly batcher: Batcher<native.NativeRedisStore, Health>
  readonly #native: native.NativeRedisStore
  readonly #health = new Health()

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
    const { connectTimeout = 2_000, commandTimeout = 1_000, maxPending, credentials } = options
    const { idleCheck = DEFAULT_IDLE_CHECK_MS } = options
    const connectMs = checkedTimeout('connectTimeout', connectTimeout)
    const timeoutMs = checkedTimeout('commandTimeout', commandTimeout)
    const max = checkedMaxPending(maxPending)
    const idleMs = wholeMillis('idleCheck', idleCheck, 1_000, MAX_IDLE_CHECK_MS)
    const target = targetOf(options, connectMs, timeoutMs, idleMs)
    // The native store references its callbacks, so they must not reference the store: otherwise an
    // unused store that was not closed would never be collected. While calls are pending, their
    // timer references it.
    let own: WeakRef<Batcher<native.NativeRedisStore, Health>> | undefined
    const onFlushDone: NativeCallbacks[0] = (flush, numbers, texts, calls) => {
      if (typeof flush === 'number') {
        own?.deref()?.complete(flush, { numbers, texts }, calls ?? undefined)
      }
    }
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
    this.batcher = new Batcher(this.#native, this.#health, timeoutMs, max, registry)
    own = new WeakRef(this.batcher)
    this.address = addressOf(target)
  }

  /** Exists only in `tollgate/wasm`. Throws with that advice. @internal */
  static from(): never {
    throw new TollgateError('INVALID_OPTION', `RedisStore of 'tollgate' connects by itself: ${CLIENT_ADVICE}`)
  }

  /** The current status of the store. */
  status(): StoreStatus {
    checkCount(arguments.length, 0, 'status takes no arguments')
    return { ...this.#health.status, pending: this.batcher.pending, leases: this.leasesHeld }
  }

  /**
   * Adds a listener for events. An error of a listener becomes an uncaught exception.
   *
   * @returns A function that removes the listener.
   */
  on<Name extends keyof StoreEvents>(event: Name, listener: (event: StoreEvents[Name]) => void): () => void {
    checkListener([...arguments], EVENTS)
    return this.#health.events.on(event, listener)
  }

  /** Rejects further calls with `CLOSED`, waits for pending calls, and closes the connection. */
  override async close(): Promise<void> {
    this.#health.close()
    await super.close()
    this.#native.close()
  }

  /** @internal */
  protected override openCallBuffer(prefix: string, policySet: PolicySet): native.NativeRedisLimiter {
    const policies = compilePolicySet(addon.engine, policySet)
    const rule = `prefix ${JSON.stringify(prefix)}`
    return translated('INVALID_OPTION', rule, () => this.#native.open(prefix, policies))
  }
}

/** Not in the constructor: its closures would share their context with the native store's callbacks. */
function createPolicyRegistry(store: native.NativeRedisStore, { events }: Health, timeoutMs: number): PolicyRegistry {
  return new PolicyRegistry(
    (prefix, text, ttlMs) => store.registerPolicies(prefix, text, ttlMs, timeoutMs),
    (warning) => events.emit('warning', warning),
    timeoutMs,
  )
}

/** The options of a store that is made by `(url)`, `(url, options)` or `(options)`. */
function optionsOfArguments(args: readonly unknown[]): RedisStoreOptions {
  const [first, second] = args
  const isUrl = typeof first === 'string'
  if (isClient(first)) {
    throw new TollgateError('INVALID_OPTION', `RedisStore connects by itself: ${CLIENT_ADVICE}`)
  }
  if (typeof first === 'number' || typeof second === 'number') {
    const advice = 'write new RedisStore({ host, port })'
    throw new TollgateError('INVALID_OPTION', `RedisStore takes a URL or an object of options, got a port: ${advice}`)
  }
  if (first instanceof URL) {
    throw new TollgateError('INVALID_OPTION', 'RedisStore takes its URL as a text: write new RedisStore(url.href)')
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
