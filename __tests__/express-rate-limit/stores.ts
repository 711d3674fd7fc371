import { MemoryStore } from '../../ts/index.js'
import { TollgateStore } from '../../ts/middleware/express-rate-limit.js'
import { TestClock } from '../../ts/testing/index.js'
import { drivenRedis } from '../driven-redis.js'

/** A backend under test. Its clock stands still, and `Date.now` of this process with it. */
export interface HitBackend {
  readonly name: string
  /** A new store that shares its counts with no other. */
  store(): TollgateStore
  /** Epoch milliseconds. */
  now(): number
  /** Lets a number of milliseconds pass. */
  pass(millis: number): Promise<void>
}

/** Runs the same tests in this process and over a real Redis. */
export function describeEach(run: (backend: HitBackend) => void): void {
  describe('embedded', () => {
    const clock = new TestClock()
    runBy(run, {
      name: 'embedded',
      store: () => new TollgateStore({ store: new MemoryStore({ clock }) }),
      now: () => clock.now(),
      pass: (millis) => clock.advance(millis),
    })
  })
  describe('over Redis', () => {
    const redis = drivenRedis()
    let stores = 0
    runBy(run, {
      name: 'Redis',
      store: () => new TollgateStore({ store: redis.store, prefix: `hits-${stores++}` }),
      now: () => redis.time.now(),
      pass: (millis) => redis.time.pass(millis),
    })
  })
}

function runBy(run: (backend: HitBackend) => void, backend: HitBackend): void {
  let now: jest.SpyInstance
  // Over Redis reset times are converted to the clock of the process.
  beforeAll(() => {
    now = jest.spyOn(Date, 'now').mockImplementation(() => backend.now())
  })
  afterAll(() => now.mockRestore())
  run(backend)
}
