/// <reference lib="esnext.disposable" preserve="true" />
import * as glue from '../../../wasm/redis-engine.js'
import { TollgateError } from '../../api/error.js'
import { compiledAll } from '../../backends/compiled.js'
import { Store } from '../../backends/limiter-backend.js'
import { Batcher, Queue } from '../../backends/redis/batching/batcher.js'
import { weightOf } from '../../backends/redis/batching/call-weight.js'
import { RedisLedger } from '../../backends/redis/batching/redis-backend.js'
import type { PoliciesWarning, StoreEvents } from '../../backends/redis/health.js'
import { NOTED_MS, NotedPolicies } from '../../backends/redis/policy-registry.js'
import { checkCount, invalid, optionsOf, translated, wholeNumber } from '../../input/options.js'
import { Events } from '../../platform/events.js'
import type { Compound } from '../../policies/policy-set.js'
import { draft } from '../engine/builder.js'
import { engine } from '../engine/engine.js'
import { NotedKeys } from './call-buffer.js'
import { type Carrier, carrierOf, type RedisClient } from './clients.js'
import { Remote } from './flush-transport.js'
import { type Started, start } from './start.js'

/** The options of {@link RedisStore.from}: those of the `RedisStore` of `tollgate` that are not the client's own. */
export interface RedisStoreFromOptions {
  /**
   * How long a call waits for its decision, in milliseconds; then it fails with `STORE_TIMEOUT`. Default: 1000.
   */
  readonly commandTimeoutMs?: number
  /** How many calls may wait at once; one more fails with `OVERLOADED`. Default: 10,000. */
  readonly maxPending?: number
}

/** A day: longer than any deadline that makes sense. */
const LONGEST_TIMEOUT_MS = 86_400_000

const MOST_PENDING = 1_000_000

/** The client is not known to be away before it has been asked. */
const HEALTH = { down: undefined, known: async () => {} }

/** The stores so far: each is told from all others. */
let stores = 0

/**
 * Keeps the counts in Redis, by a client that you have: on the same keys, by the same scripts and with the same decisions
 * as the `RedisStore` of `tollgate`, for platforms on which that has no addon. Redis's clock decides.
 *
 * Calls that come together go in one script call. A call whose fate is unknown is never sent again: it fails with
 * `STORE_TIMEOUT` or `STORE_UNAVAILABLE`, and `charged` is `'unknown'`.
 *
 * The client connects, reconnects and is closed by you. It must not send commands again by itself: `ioredis` is to be
 * made with `autoResendUnfulfilledCommands: false`, `@upstash/redis` with `retry: { retries: 0 }`; otherwise it is an
 * `INVALID_OPTION`. Clients of a cluster are not taken.
 *
 * @example
 * import { gcra, RateLimiter, RedisStore } from 'tollgate/wasm'
 *
 * const store = RedisStore.from(new Redis({ autoResendUnfulfilledCommands: false }))
 * const limiter = new RateLimiter(gcra({ limit: 100, period: '1m' }), { store, prefix: 'api' })
 */
export class RedisStore extends Store {
  /** @internal */
  override readonly address: string
  /** @internal */
  override readonly engine = engine
  readonly #started: Started
  readonly #prefixes: glue.RedisStore
  readonly #remote: Remote
  readonly #batcher: Batcher
  readonly #events = new Events<Pick<StoreEvents, 'warning'>>()
  /** The prefixes that are open, and for how many limiters. */
  readonly #queues = new Map<string, { readonly queue: Queue; users: number }>()
  #closed = false

  /**
   * A store in the Redis of a client: of `ioredis`, node-redis or `@upstash/redis`, or a function that runs a command, such
   * as `(command) => connection.send(command)`, and rejects with Redis's error, whose message begins with its code.
   *
   * @throws {TollgateError} `INVALID_OPTION`
   */
  static from(client: RedisClient, options: RedisStoreFromOptions = {}): RedisStore {
    checkCount(arguments.length, 2, 'RedisStore.from takes a client and an object of options')
    const names = ['commandTimeoutMs', 'maxPending'] as const
    const given = optionsOf('INVALID_OPTION', 'RedisStore.from', options, names)
    const { commandTimeoutMs = 1_000, maxPending = 10_000 } = given
    const timeoutMs = wholeNumber('INVALID_OPTION', 'commandTimeoutMs', commandTimeoutMs, 1, LONGEST_TIMEOUT_MS)
    const most = wholeNumber('INVALID_OPTION', 'maxPending', maxPending, 1, MOST_PENDING)
    return new RedisStore(carrierOf(client), timeoutMs, most)
  }

  private constructor(carrier: Carrier, timeoutMs: number, maxPending: number) {
    super()
    stores++
    this.address = `client:${stores}`
    this.#started = start()
    this.#prefixes = new glue.RedisStore()
    this.#remote = new Remote(this.#started, carrier, (round, answers) => {
      this.#batcher.settle(round, answers, undefined)
    })
    const noted = new NotedPolicies(
      (prefix, text) => void this.#note(carrier, prefix, text),
      (warning) => this.#events.emit('warning', warning),
    )
    this.#batcher = new Batcher(this.#remote, HEALTH, timeoutMs, maxPending, noted)
  }

  /**
   * Hears of what should not remain as it is. A listener that throws is an uncaught exception.
   *
   * @returns A function that ends it.
   */
  on(event: 'warning', listener: (event: PoliciesWarning) => void): () => void {
    checkCount(arguments.length, 2, 'on takes an event and a listener')
    if (event !== 'warning') {
      throw invalid('INVALID_OPTION', 'event', 'must be warning', event)
    }
    if (typeof listener !== 'function') {
      throw invalid('INVALID_OPTION', 'listener', 'must be a function', listener)
    }
    return this.#events.on(event, (warning) => listener(warning as PoliciesWarning))
  }

  /** How many calls wait for an answer. */
  get pending(): number {
    return this.#batcher.pending
  }

  /** Refuses further calls with `CLOSED`, and waits for the calls under way. The client stays open. May be called again. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#batcher.close()
  }

  /** {@link close}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Has the text of a prefix's policies noted. Nobody waits for it, and it may fail. */
  async #note(carrier: Carrier, prefix: string, text: string): Promise<void> {
    try {
      const texts = await carrier.eval(glue.policiesSource(), [glue.policiesName(prefix)], [text, String(NOTED_MS)])
      const decoder = new TextDecoder()
      const textOf = (reply: unknown) => (reply instanceof Uint8Array ? decoder.decode(reply) : String(reply))
      this.#batcher.notedPolicies?.heard(prefix, Array.isArray(texts) ? texts.map(textOf) : [])
    } catch {
      // Decisions do not depend on it.
    }
  }

  /** @internal */
  override open(prefix: string | undefined, compound: Compound, tag: string | undefined): RedisLedger {
    if (prefix === undefined) {
      throw new TollgateError('INVALID_OPTION', 'prefix is required with Redis: it sets the keys of limiters apart')
    }
    if (this.#closed) {
      throw new TollgateError('CLOSED', 'the store has been closed')
    }
    const policies = compiledAll(engine, compound)
    const { desk } = this.#started
    const ledger = translated('INVALID_OPTION', `prefix ${JSON.stringify(prefix)}`, () => {
      const isSingle = draft(glue, desk, policies)
      desk.layText(prefix, 0)
      const opened = this.#prefixes.open(isSingle)
      if (opened === undefined) {
        throw desk.reason()
      }
      return new NotedKeys(opened, desk)
    })
    const shared = this.#queues.get(prefix) ?? { queue: new Queue(ledger, weightOf(compound)), users: 0 }
    const { notedPolicies: noted } = this.#batcher
    if (shared.users === 0) {
      this.#queues.set(prefix, shared)
      noted?.open(prefix, compound)
    }
    shared.users++
    const release = () => {
      ledger.close()
      shared.users--
      if (shared.users === 0) {
        this.#queues.delete(prefix)
        noted?.close(prefix)
      }
    }
    const used = () => noted?.used(prefix)
    const home = { native: this.#remote, batcher: this.#batcher, engine, used }
    return new RedisLedger(home, shared.queue, compound, tag, release)
  }
}
