import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Policies, Policy } from '../../ts/index.js'
import * as native from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import type { AnyLimiter } from '../wasm/trace.js'

/** 2026-03-28, a day before the clocks go forward in Europe. */
const START_US = Date.UTC(2026, 2, 28) * 1_000

/** A store of a world, by its kind. */
export interface Engine {
  readonly name: string
  /** Whether it keeps its states in Redis. */
  readonly isRemote: boolean
  open(policy: Policy | Policies, prefix: string): AnyLimiter & { close(): Promise<void> }
}

/** The way from this process to the server. */
export interface Way {
  /** Added to each way of the native store, in milliseconds. */
  readonly latencyMs: number
  /** Whether WebAssembly's stores take part. */
  readonly hasWasm: boolean
}

/** A Redis server, and all stores beside it, which go by one clock: it stands still until it is set. */
export class World {
  /** When the memory stores are asked about another time. */
  #seenUs: number | undefined
  #nowUs = START_US
  #engines: Engine[] = []
  #ends: (() => Promise<unknown>)[] = []
  /** How many calls wait for an answer, by store. */
  #pending: (() => number)[] = []

  private constructor(
    readonly server: RedisServer,
    readonly proxy: TcpProxy,
  ) {}

  static async start(): Promise<World> {
    const server = await RedisServer.start({ timeUs: START_US })
    return new World(server, await TcpProxy.start(server))
  }

  get nowUs(): number {
    return this.#nowUs
  }

  /** The stores. All states in Redis begin with the prefix `n` or, those of a client's store, `w`. */
  get engines(): readonly Engine[] {
    return this.#engines
  }

  /** Goes on to a time, in microseconds. */
  goTo(timeUs: number): void {
    this.#nowUs = timeUs
    this.server.setTime(timeUs)
  }

  /** What the memory stores answer at once at another time. */
  seenFrom<T>(timeUs: number, ask: () => T): T {
    this.#seenUs = timeUs
    try {
      return ask()
    } finally {
      this.#seenUs = undefined
    }
  }

  /** Waits until the stores have answered all, also what nobody waits for. */
  async idle(): Promise<void> {
    while (this.#pending.some((count) => count() > 0)) {
      await sleep(0)
    }
  }

  /** Begins with new stores and an empty server. */
  async furnish({ latencyMs, hasWasm }: Way): Promise<void> {
    await this.clear()
    await this.server.command('FLUSHALL')
    const clock = () => (this.#seenUs ?? this.#nowUs) / 1_000
    const memory = new native.MemoryStore({ clock })
    this.proxy.latencyMs = latencyMs
    const url = latencyMs > 0 ? this.proxy.url : this.server.url
    const redis = new native.RedisStore(url, { commandTimeoutMs: 30_000 })
    this.#ends.push(() => redis.close())
    this.#pending.push(() => redis.status().pending)
    this.#engines = [
      {
        name: 'memory',
        isRemote: false,
        open: (policy, prefix) => limiterOf(new native.RateLimiter(policy, { store: memory, prefix })),
      },
      {
        name: 'Redis',
        isRemote: true,
        open: (policy, prefix) => limiterOf(new native.RateLimiter(policy, { store: redis, prefix: `n${prefix}` })),
      },
    ]
    if (hasWasm) {
      this.#engines.push(...this.#wasm(clock))
    }
  }

  #wasm(clock: () => number): Engine[] {
    // It is not there where only the quick tests run.
    const wasm = require('../../ts/wasm/index.js') as typeof import('../../ts/wasm/index.js')
    const memory = new wasm.MemoryStore({ clock })
    const client = new Redis({
      path: this.server.socketPath,
      autoResendUnfulfilledCommands: false,
      enableReadyCheck: false,
    })
    const redis = wasm.RedisStore.from(client, { commandTimeoutMs: 30_000 })
    this.#pending.push(() => redis.pending)
    this.#ends.push(async () => {
      await redis.close()
      client.disconnect()
    })
    return [
      {
        name: 'memory of WebAssembly',
        isRemote: false,
        open: (policy, prefix) => limiterOf(new wasm.RateLimiter(policy, { store: memory, prefix })),
      },
      {
        name: "Redis by a client's RedisStore.from",
        isRemote: true,
        open: (policy, prefix) => limiterOf(new wasm.RateLimiter(policy, { store: redis, prefix: `w${prefix}` })),
      },
    ]
  }

  /** Closes the stores. */
  async clear(): Promise<void> {
    this.#pending = []
    for (const end of this.#ends.splice(0)) {
      await end()
    }
  }

  async stop(): Promise<void> {
    await this.clear()
    await this.proxy.stop()
    await this.server.stop()
  }
}

/** A limiter of any policies is asked as programs without types do. */
function limiterOf(limiter: unknown): AnyLimiter & { close(): Promise<void> } {
  return limiter as AnyLimiter & { close(): Promise<void> }
}
