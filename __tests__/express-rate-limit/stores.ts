import { TollgateStore } from '../../ts/middleware/express-rate-limit.js'
import { openedRedis } from '../redis/opened.js'

/** A backend under test. */
export interface HitBackend {
  readonly name: string
  /** A new store that shares its counts with no other. */
  store(): TollgateStore
}

/** A private store, in this process. */
const embedded: HitBackend = { name: 'embedded', store: () => new TollgateStore() }

/** Runs the same tests in this process and over a real Redis. */
export function describeEach(run: (backend: HitBackend) => void): void {
  describe('embedded', () => run(embedded))
  describe('over Redis', () => {
    const redis = openedRedis()
    let stores = 0
    run({ name: 'Redis', store: () => new TollgateStore({ store: redis.store, prefix: `hits-${stores++}` }) })
  })
}
