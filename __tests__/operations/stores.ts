import { setTimeout as sleep } from 'node:timers/promises'
import type {
  AcquiringFor,
  BanningOptions,
  Override,
  Policies,
  Policy,
  ReservingFor,
  TieredLimiter,
  TieredPolicies,
  WaitsOf,
} from '../../ts/index.js'
import { type KeyOf, type LimitNames, MemoryStore, RateLimiter } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { openedRedis } from '../redis/opened.js'

/** A limiter with the operations of every store. */
export type AnyLimiter<P extends Policy | Policies> = RateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> &
  ReservingFor<P> &
  WaitsOf<P> &
  AcquiringFor<P>

/** A store on which the operation tests run. */
export interface Backend {
  readonly name: string
  /** A limiter with a unique prefix. */
  limiter<const P extends Policy | Policies>(policies: P, options?: BanningOptions): AnyLimiter<P>
  /** A limiter with tiers, with a unique prefix. */
  tiered<const P extends TieredPolicies>(policies: P, options?: BanningOptions): TieredLimiter<P>
  /** Two limiters on the same keys. */
  limiterPair<const P extends Policy | Policies>(policies: P): readonly [AnyLimiter<P>, AnyLimiter<P>]
  /** Lets a number of milliseconds pass. */
  pass(millis: number): Promise<void>
}

/** The embedded store, with a fake clock. */
export function embedded(): Backend {
  const clock = new FakeClock()
  return inMemory(async (millis) => clock.advance(millis), clock.read)
}

/** The embedded store, by default with the system clock. */
function inMemory(pass: (millis: number) => Promise<void>, clock?: () => number): Backend {
  const newStore = () => new MemoryStore(clock === undefined ? {} : { clock })
  return {
    name: 'embedded',
    limiter: (policies, options) => new RateLimiter(policies, { ...options, store: newStore() }),
    tiered: (policies, options) => new RateLimiter(policies, { ...options, store: newStore() }),
    limiterPair: (policies) => {
      const store = newStore()
      return [new RateLimiter(policies, { store }), new RateLimiter(policies, { store })]
    },
    pass,
  }
}

/** The embedded store of WebAssembly. */
function webAssembly(): Backend {
  const wasm: typeof import('../../ts/wasm/index.js') = require('../../ts/wasm/index.js')
  const clock = new FakeClock()
  const newStore = () => new wasm.MemoryStore({ clock: clock.read })
  return {
    name: 'WebAssembly',
    limiter: (policies, options) => new wasm.RateLimiter(policies, { ...options, store: newStore() }),
    tiered: (policies, options) => new wasm.RateLimiter(policies, { ...options, store: newStore() }),
    limiterPair: (policies) => {
      const store = newStore()
      return [new wasm.RateLimiter(policies, { store }), new wasm.RateLimiter(policies, { store })]
    },
    pass: async (millis) => clock.advance(millis),
  }
}

/** A real Redis server. */
function redis(): Backend {
  const opened = openedRedis()
  let limiters = 0
  return {
    name: 'Redis',
    limiter: (policies, options) =>
      new RateLimiter(policies, { ...options, store: opened.store, prefix: `limiter-${limiters++}` }),
    tiered: (policies, options) =>
      new RateLimiter(policies, { ...options, store: opened.store, prefix: `limiter-${limiters++}` }),
    limiterPair: (policies) => {
      const options = { store: opened.store, prefix: `limiter-${limiters++}` }
      return [new RateLimiter(policies, options), new RateLimiter(policies, options)]
    },
    // By Redis's clock, which may be read up to a millisecond before this process's.
    pass: (millis) => sleep(millis + 2),
  }
}

/**
 * `npm test` leaves WebAssembly out, which takes a minute to build, and says so in its last line.
 */
const { TOLLGATE_TEST_WASM } = process.env

/**
 * All stores. The cases are the same, and none takes longer than milliseconds unless it lets time
 * pass.
 */
export const BACKENDS: readonly [Backend, Backend, ...Backend[]] = [
  embedded(),
  redis(),
  ...(TOLLGATE_TEST_WASM === 'off' ? [] : [webAssembly()]),
]

/** The stores with real clocks. */
export const LIVE_BACKENDS: readonly Backend[] = [inMemory((millis) => sleep(millis)), BACKENDS[1]]
