import { setTimeout as sleep } from 'node:timers/promises'
import type { Override, Policies, Policy, ReservingFor, WaitsOf } from '../../ts/index.js'
import { type KeyOf, type LimitNames, MemoryStore, RateLimiter } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { openedRedis } from '../redis/opened.js'

/** A limiter as tests of operations use it: on whichever store. */
export type AnyLimiter<P extends Policy | Policies> = RateLimiter<KeyOf<P>, LimitNames<P>, Override<P>> &
  ReservingFor<P> &
  WaitsOf<P>

/** A place where the cases of operations run. */
export interface Place {
  readonly name: string
  /** A limiter that nobody else uses. */
  limiter<const P extends Policy | Policies>(policies: P): AnyLimiter<P>
  /** Two limiters on the same keys. */
  twins<const P extends Policy | Policies>(policies: P): readonly [AnyLimiter<P>, AnyLimiter<P>]
  /** Lets so many milliseconds pass. */
  pass(millis: number): Promise<void>
}

/** The embedded store, by a clock that stands still. */
export function embedded(): Place {
  const clock = new FakeClock()
  return inMemory(async (millis) => clock.advance(millis), clock.read)
}

/** The embedded store, by the system's clock unless there is another. */
function inMemory(pass: (millis: number) => Promise<void>, clock?: () => number): Place {
  const newStore = () => new MemoryStore(clock === undefined ? {} : { clock })
  return {
    name: 'embedded',
    limiter: (policies) => new RateLimiter(policies, { store: newStore() }),
    twins: (policies) => {
      const store = newStore()
      return [new RateLimiter(policies, { store }), new RateLimiter(policies, { store })]
    },
    pass,
  }
}

/** The embedded store of WebAssembly. */
function webAssembly(): Place {
  const wasm: typeof import('../../ts/wasm/index.js') = require('../../ts/wasm/index.js')
  const clock = new FakeClock()
  const newStore = () => new wasm.MemoryStore({ clock: clock.read })
  return {
    name: 'WebAssembly',
    limiter: (policies) => new wasm.RateLimiter(policies, { store: newStore() }),
    twins: (policies) => {
      const store = newStore()
      return [new wasm.RateLimiter(policies, { store }), new wasm.RateLimiter(policies, { store })]
    },
    pass: async (millis) => clock.advance(millis),
  }
}

/** A real Redis server. */
function redis(): Place {
  const opened = openedRedis()
  let limiters = 0
  return {
    name: 'Redis',
    limiter: (policies) => new RateLimiter(policies, { store: opened.store, prefix: `limiter-${limiters++}` }),
    twins: (policies) => {
      const options = { store: opened.store, prefix: `limiter-${limiters++}` }
      return [new RateLimiter(policies, options), new RateLimiter(policies, options)]
    },
    // By Redis's clock, which may be read up to a millisecond before this process's.
    pass: (millis) => sleep(millis + 2),
  }
}

/** `npm test` does without WebAssembly, which takes a minute to build, and says so in its last line. */
const { TOLLGATE_TEST_WASM } = process.env

/** Every place: the cases are the same, and nothing in them takes longer than milliseconds unless it passes time. */
export const PLACES: readonly [Place, Place, ...Place[]] = [
  embedded(),
  redis(),
  ...(TOLLGATE_TEST_WASM === 'off' ? [] : [webAssembly()]),
]

/** Every place, by clocks that go on by themselves. */
export const LIVE_PLACES: readonly Place[] = [inMemory((millis) => sleep(millis)), PLACES[1]]
