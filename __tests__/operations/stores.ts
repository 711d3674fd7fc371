import type { Policies, Policy, RateLimiterOptions, TieredPolicy } from '../../ts/index.js'
import { MemoryStore, RateLimiter } from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { drivenRedis } from '../driven-redis.js'

/** The type of a limiter's first argument. */
type Enforced = Policy | Policies | TieredPolicy | { readonly [name: string]: Policy | TieredPolicy }

type BanningOptions = Pick<RateLimiterOptions, 'ban' | 'blockFor'>

/** A store on which the operation tests run. */
export interface Backend {
  readonly name: string
  /** A limiter with a unique prefix. */
  limiter<const P extends Enforced>(policies: P, options?: BanningOptions): RateLimiter<P>
  /** Two limiters on the same keys. */
  limiterPair<const P extends Policy | Policies>(policies: P): readonly [RateLimiter<P>, RateLimiter<P>]
  /** Returns a function that makes limiters on the same keys. */
  sharedKeys(): <const P extends Policy | Policies>(policies: P) => RateLimiter<P>
  /** The time of the clock, which stands still: epoch milliseconds. */
  now(): number
  /** Lets a number of milliseconds pass. */
  pass(millis: number): Promise<void>
  /** Lets time pass until a promise is settled. */
  until<T>(promise: Promise<T>): Promise<T>
}

/** The embedded store. */
export function embedded(): Backend {
  const clock = new TestClock()
  const newStore = () => new MemoryStore({ clock })
  return {
    name: 'embedded',
    limiter: (policies, options) => new RateLimiter(policies, { ...options, store: newStore() }),
    limiterPair: (policies) => {
      const store = newStore()
      return [new RateLimiter(policies, { store }), new RateLimiter(policies, { store })]
    },
    sharedKeys: () => {
      const store = newStore()
      return (policies) => new RateLimiter(policies, { store })
    },
    ...timeBy(clock),
  }
}

function timeBy(clock: TestClock): Pick<Backend, 'now' | 'pass' | 'until'> {
  return {
    now: () => clock.now(),
    pass: (millis) => clock.advance(millis),
    until: (promise) => clock.advanceUntil(promise),
  }
}

/** The embedded store of WebAssembly. */
function webAssembly(): Backend {
  const wasm: typeof import('../../ts/wasm/index.js') = require('../../ts/wasm/index.js')
  const clock = new TestClock()
  const newStore = () => new wasm.MemoryStore({ clock })
  return {
    name: 'WebAssembly',
    limiter: (policies, options) => new wasm.RateLimiter(policies, { ...options, store: newStore() }),
    limiterPair: (policies) => {
      const store = newStore()
      return [new wasm.RateLimiter(policies, { store }), new wasm.RateLimiter(policies, { store })]
    },
    sharedKeys: () => {
      const store = newStore()
      return (policies) => new wasm.RateLimiter(policies, { store })
    },
    ...timeBy(clock),
  }
}

/** A real Redis server, with a clock that the test advances. */
function redis(): Backend {
  const opened = drivenRedis()
  let limiters = 0
  return {
    name: 'Redis',
    limiter: (policies, options) =>
      new RateLimiter(policies, { ...options, store: opened.store, prefix: `limiter-${limiters++}` }),
    limiterPair: (policies) => {
      const options = { store: opened.store, prefix: `limiter-${limiters++}` }
      return [new RateLimiter(policies, options), new RateLimiter(policies, options)]
    },
    sharedKeys: () => {
      const options = { store: opened.store, prefix: `limiter-${limiters++}` }
      return (policies) => new RateLimiter(policies, options)
    },
    now: () => opened.time.now(),
    pass: (millis) => opened.time.pass(millis),
    until: (promise) => opened.time.until(promise),
  }
}

/** `npm test` leaves WebAssembly `off`, which takes a minute to build. `npm run test:full` then runs `only` it. */
const { TOLLGATE_TEST_WASM } = process.env

/** Stores, each with a clock that stands still. The cases are the same. */
export const BACKENDS: readonly [Backend, ...Backend[]] =
  TOLLGATE_TEST_WASM === 'only'
    ? [webAssembly()]
    : [embedded(), redis(), ...(TOLLGATE_TEST_WASM === 'off' ? [] : [webAssembly()])]
