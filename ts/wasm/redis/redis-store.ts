import type * as native from '../../../generated/native.js'
import * as glue from '../../../generated/wasm/redis-engine.js'
import { compilePolicySet } from '../../backends/compile-policies.js'
import { BatchedStore, checkedMaxPending, checkedTimeout, checkListener } from '../../backends/redis/batched-store.js'
import { Batcher } from '../../backends/redis/batching/batcher.js'
import type { StoreEvents } from '../../backends/redis/health.js'
import { PolicyRegistry } from '../../backends/redis/policy-registry.js'
import type { Duration } from '../../input/duration.js'
import { checkCount, optionsOf, translated, trueOrFalse } from '../../input/options.js'
import { Events } from '../../platform/events.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { buildPolicySet } from '../engine/builder.js'
import { engine } from '../engine/engine.js'
import { CallBuffer } from './call-buffer.js'
import { type RedisClient, type ScriptRunner, scriptRunnerOf } from './clients.js'
import { ClientFlushTransport } from './flush-transport.js'
import { type RedisEngine, startRedisEngine } from './start.js'

/**
 * The options of {@link RedisStore.from}: the options of `tollgate`'s `RedisStore` that do not
 * concern the connection.
 */
export interface RedisStoreFromOptions {
  /** The timeout of a call, which then fails with `STORE_TIMEOUT`: milliseconds, or a duration. Default: 1000. */
  readonly commandTimeout?: Duration
  /** The most calls without an answer; one more fails with `OVERLOADED`. Default: 10,000. */
  readonly maxPending?: number
  /**
   * Sends a script of its own for each key, as behind a proxy that sends a script to the server of its first key
   * (twemproxy, Envoy). A call on different keys then needs a `tag`, and fails with `STORE_ERROR` without one.
   * Default: `false`.
   */
  readonly oneKeyPerScript?: boolean
}

/** A client is not known to be down before a call. */
const HEALTH = { down: undefined, whenKnown: async () => {} }

/** The number of stores so far, which identifies each store. */
let stores = 0

/**
 * Keeps the counts in Redis, through a client that you have: with the same keys, scripts and decisions as the
 * `RedisStore` of `tollgate`. Redis's clock decides. A call whose outcome is unknown is never sent again.
 *
 * The client connects by itself, and you close it. It must not resend commands: make
 * `ioredis` and `iovalkey` with `autoResendUnfulfilledCommands: false` and `@upstash/redis` with
 * `retry: { retries: 0 }`. It must not rename keys: make it without `keyPrefix`. Otherwise `from`
 * throws `INVALID_OPTION`. Clients of a cluster are not supported.
 *
 * @example
 * import { gcra, RateLimiter, RedisStore } from 'tollgate/wasm'
 *
 * const store = RedisStore.from(new Redis({ autoResendUnfulfilledCommands: false }))
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store, prefix: 'api' })
 */
export class RedisStore extends BatchedStore {
  /** @internal */
  override readonly address: string
  /** @internal */
  override readonly engine = engine
  /** @internal */
  override readonly batcher: Batcher
  readonly #redisEngine: RedisEngine
  readonly #prefixes: glue.WasmRedisStore
  readonly #events = new Events<Pick<StoreEvents, 'warning'>>()

  /**
   * Makes a store over a client, or over a function that runs a command, such as
   * `(command) => connection.send(command)`, and rejects with Redis's error, whose message begins with its code.
   *
   * @throws {TollgateError} `INVALID_OPTION`
   */
  static from(client: RedisClient, options: RedisStoreFromOptions = {}): RedisStore {
    checkCount(arguments.length, 2, 'RedisStore.from takes a client and an object of options')
    const names = ['commandTimeout', 'maxPending', 'oneKeyPerScript'] as const
    const checked = optionsOf('INVALID_OPTION', 'RedisStore.from', options, names)
    const { commandTimeout = 1_000, maxPending, oneKeyPerScript = false } = checked
    const timeoutMs = checkedTimeout('commandTimeout', commandTimeout)
    const max = checkedMaxPending(maxPending)
    const hasOneKey = trueOrFalse('INVALID_OPTION', 'oneKeyPerScript', oneKeyPerScript)
    return new RedisStore(scriptRunnerOf(client), timeoutMs, max, hasOneKey)
  }

  private constructor(runner: ScriptRunner, timeoutMs: number, maxPending: number, oneKeyPerScript: boolean) {
    super()
    stores++
    this.address = `client:${stores}`
    this.#redisEngine = startRedisEngine()
    this.#prefixes = new glue.WasmRedisStore()
    const transport = new ClientFlushTransport(this.#redisEngine, runner, oneKeyPerScript, {
      complete: (flush, responses, first) => this.batcher.complete(flush, responses, undefined, first),
      expire: (flush) => this.batcher.expire(flush),
    })
    const registry = new PolicyRegistry(
      (prefix, text, ttlMs) => void this.#publishPolicies(runner, prefix, text, ttlMs),
      (warning) => this.#events.emit('warning', warning),
      timeoutMs,
    )
    this.batcher = new Batcher(transport, HEALTH, timeoutMs, maxPending, registry)
  }

  /** Adds a listener for warnings. @returns A function that removes the listener. */
  on(
    event: 'warning',
    listener: (event: Extract<StoreEvents['warning'], { readonly code: 'POLICIES_DIFFER' }>) => void,
  ): () => void {
    checkListener([...arguments], ['warning'])
    return this.#events.on(event, (warning) => listener(warning as Parameters<typeof listener>[0]))
  }

  /** The number of calls without an answer. */
  get pending(): number {
    return this.batcher.pending
  }

  /** Rejects further calls with `CLOSED`, and waits for pending calls. The client stays open. */
  override close(): Promise<void> {
    return super.close()
  }

  /** Publishes the text of a prefix's policies for a time; 0 publishes nothing. It may fail. */
  async #publishPolicies(runner: ScriptRunner, prefix: string, text: string, ttlMs: number): Promise<void> {
    let registered: string[] = []
    try {
      const texts = await runner.eval(glue.policiesSource(), [glue.policiesName(prefix)], [text, String(ttlMs)])
      const decoder = new TextDecoder()
      const textOf = (reply: unknown) => (reply instanceof Uint8Array ? decoder.decode(reply) : String(reply))
      registered = Array.isArray(texts) ? texts.map(textOf) : []
    } catch {
      // Decisions do not depend on it.
    }
    this.batcher.policyRegistry?.compare(prefix, registered)
  }

  /** @internal */
  protected override openCallBuffer(prefix: string, policySet: PolicySet): native.NativeRedisLimiter {
    const policies = compilePolicySet(engine, policySet)
    const { scratch } = this.#redisEngine
    return translated('INVALID_OPTION', `prefix ${JSON.stringify(prefix)}`, () => {
      const isSingle = buildPolicySet(glue, scratch, policies)
      scratch.writeText(prefix, 0)
      return new CallBuffer(scratch.made(this.#prefixes.open(isSingle)), scratch)
    })
  }
}
