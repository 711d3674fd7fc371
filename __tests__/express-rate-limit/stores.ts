import { TollgateStore } from '../../ts/middleware/express-rate-limit.js'
import { openedRedis } from '../redis/opened.js'

/** Where hits are counted. */
export interface Place {
  readonly name: string
  /** A store that counts what no other does. */
  store(): TollgateStore
}

/** A store of its own, in this process. */
const embedded: Place = { name: 'embedded', store: () => new TollgateStore() }

/** Runs the same tests in this process and over a real Redis. */
export function describeEach(run: (place: Place) => void): void {
  describe('embedded', () => run(embedded))
  describe('over Redis', () => {
    const redis = openedRedis()
    let stores = 0
    run({ name: 'Redis', store: () => new TollgateStore({ store: redis.store, prefix: `hits-${stores++}` }) })
  })
}
