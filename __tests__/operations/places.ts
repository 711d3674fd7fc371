import { setTimeout as sleep } from 'node:timers/promises'
import type { Override, Policies, Policy } from '../../ts/index.js'
import { type KeyOf, type LimitNames, MemoryStore, RateLimiter, RedisStore } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { RedisServer } from '../redis-server.js'

/** A limiter as tests of operations use it: on whichever store. */
export type AnyLimiter<P extends Policy | Policies> = RateLimiter<KeyOf<P>, LimitNames<P>, Override<P>>

/** A place where the cases of operations run. */
export interface Place {
  readonly name: string
  /** A limiter that nobody else uses. */
  limiter<const P extends Policy | Policies>(policies: P): AnyLimiter<P>
  /** Lets so many milliseconds pass. */
  pass(millis: number): Promise<void>
}

/** The embedded store, by a clock that stands still. */
export function embedded(): Place {
  const clock = new FakeClock()
  return {
    name: 'embedded',
    limiter: (policies) => new RateLimiter(policies, { store: new MemoryStore({ clock: clock.read }) }),
    pass: async (millis) => clock.advance(millis),
  }
}

/** A real Redis server, which is started before the tests of the file and ends after them. */
function redis(): Place {
  let server: RedisServer
  let store: RedisStore
  let limiters = 0
  beforeAll(async () => {
    server = await RedisServer.start()
    store = new RedisStore(server.url)
  })
  afterAll(async () => {
    await store.close()
    await server.stop()
  })
  return {
    name: 'Redis',
    limiter: (policies) => new RateLimiter(policies, { store, prefix: `limiter-${limiters++}` }),
    // By Redis's clock, which may be read up to a millisecond before this process's.
    pass: (millis) => sleep(millis + 2),
  }
}

/** Every place: the cases are the same, and nothing in them takes longer than milliseconds unless it passes time. */
export const PLACES: readonly Place[] = [embedded(), redis()]
