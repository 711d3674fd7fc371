import { TollgateStore } from '../../ts/express-rate-limit.js'
import { RedisStore } from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'

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
    let server: RedisServer
    let store: RedisStore
    let stores = 0
    beforeAll(async () => {
      server = await RedisServer.start()
      store = new RedisStore(server.url)
    })
    afterAll(async () => {
      await store.close()
      await server.stop()
    })
    run({ name: 'Redis', store: () => new TollgateStore({ store, prefix: `hits-${stores++}` }) })
  })
}
