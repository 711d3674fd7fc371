import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Policies, Policy, RateLimiterOptions, TieredPolicy } from '../../ts/index.js'
import * as native from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import type { AnyLimiter } from './any-limiter.js'

/** 2026-03-28, a day before the clocks go forward in Europe. */
const START_US = Date.UTC(2026, 2, 28) * 1_000

/** The policies of a limiter, with or without tiers. */
export type SimulatedPolicies = Policy | Policies | TieredPolicy | { readonly [name: string]: Policy | TieredPolicy }

/** A kind of store under simulation. */
export interface SimulatedStore {
  readonly name: string
  /** Whether its state is in Redis. */
  readonly isRemote: boolean
  open(
    policy: SimulatedPolicies,
    prefix: string,
    options: Pick<RateLimiterOptions, 'ban' | 'blockFor'>,
  ): AnyLimiter & { close(): Promise<void> }
}

/** The proxy between this process and the server. */
export interface ResetOptions {
  /** Latency of the native store in each direction, in milliseconds. */
  readonly latencyMs: number
  /** Whether WebAssembly's stores take part. */
  readonly hasWasm: boolean
}

/** A Redis server and all stores, with one clock that stands still until it is set. */
export class Environment {
  /** A different time for the memory stores, while set. */
  #seenUs: number | undefined
  #nowUs = START_US
  #stores: SimulatedStore[] = []
  #ends: (() => Promise<unknown>)[] = []
  /** The number of pending calls, by store. */
  #pending: (() => number)[] = []

  private constructor(
    readonly server: RedisServer,
    readonly proxy: TcpProxy,
  ) {}

  static async start(): Promise<Environment> {
    const server = await RedisServer.start({ timeUs: START_US })
    return new Environment(server, await TcpProxy.start(server))
  }

  get nowUs(): number {
    return this.#nowUs
  }

  /** The stores. States in Redis have the prefix `n`, or `w` for those of a client's store. */
  get stores(): readonly SimulatedStore[] {
    return this.#stores
  }

  /** Advances the clock to a time, in microseconds. */
  goTo(timeUs: number): void {
    this.#nowUs = timeUs
    this.server.setTime(timeUs)
  }

  /** The immediate results of the memory stores at another time. */
  atMemoryTime<T>(timeUs: number, call: () => T): T {
    this.#seenUs = timeUs
    try {
      return call()
    } finally {
      this.#seenUs = undefined
    }
  }

  /** Waits until the stores have answered all calls, including abandoned ones. */
  async idle(): Promise<void> {
    while (this.#pending.some((count) => count() > 0)) {
      await sleep(0)
    }
  }

  /** Starts over with new stores and an empty server. */
  async reset({ latencyMs, hasWasm }: ResetOptions): Promise<void> {
    await this.clear()
    await this.server.command('FLUSHALL')
    const clock = () => (this.#seenUs ?? this.#nowUs) / 1_000
    const memory = new native.MemoryStore({ clock })
    this.proxy.latencyMs = latencyMs
    const url = latencyMs > 0 ? this.proxy.url : this.server.url
    const redis = new native.RedisStore(url, { commandTimeout: 30_000 })
    this.#ends.push(() => redis.close())
    this.#pending.push(() => redis.status().pending)
    this.#stores = [
      {
        name: 'memory',
        isRemote: false,
        open: (policy, prefix, options) =>
          limiterOf(new native.RateLimiter(policy as Policy, { ...options, store: memory, prefix })),
      },
      {
        name: 'Redis',
        isRemote: true,
        open: (policy, prefix, options) =>
          limiterOf(new native.RateLimiter(policy as Policy, { ...options, store: redis, prefix: `n${prefix}` })),
      },
    ]
    if (hasWasm) {
      this.#stores.push(...this.#wasm(clock))
    }
  }

  #wasm(clock: () => number): SimulatedStore[] {
    // The WebAssembly build does not exist if only the quick tests run.
    const wasm = require('../../ts/wasm/index.js') as typeof import('../../ts/wasm/index.js')
    const memory = new wasm.MemoryStore({ clock })
    const client = new Redis({
      path: this.server.socketPath,
      autoResendUnfulfilledCommands: false,
      enableReadyCheck: false,
    })
    const redis = wasm.RedisStore.from(client, { commandTimeout: 30_000 })
    this.#pending.push(() => redis.pending)
    this.#ends.push(async () => {
      await redis.close()
      client.disconnect()
    })
    return [
      {
        name: 'memory of WebAssembly',
        isRemote: false,
        open: (policy, prefix, options) =>
          limiterOf(new wasm.RateLimiter(policy as Policy, { ...options, store: memory, prefix })),
      },
      {
        name: "Redis by a client's RedisStore.from",
        isRemote: true,
        open: (policy, prefix, options) =>
          limiterOf(new wasm.RateLimiter(policy as Policy, { ...options, store: redis, prefix: `w${prefix}` })),
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

/** A limiter of any policies, called as by programs without types. */
function limiterOf(limiter: unknown): AnyLimiter & { close(): Promise<void> } {
  return limiter as AnyLimiter & { close(): Promise<void> }
}
