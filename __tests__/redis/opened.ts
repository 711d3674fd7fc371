import { RedisStore } from '../../ts/index.js'
import { RedisServer, type RedisServerOptions } from '../servers/redis-server.js'
import { PATIENT_MS } from './help.js'

/** A real Redis server and a store on it, open during the tests of a file or block. */
export interface OpenedRedis {
  readonly server: RedisServer
  readonly store: RedisStore
}

/** Registers the hooks that open and close them. Neither exists before the first test. */
export function openedRedis(
  options: RedisServerOptions = {},
  open: (server: RedisServer) => RedisStore | Promise<RedisStore> = ({ url }) =>
    new RedisStore({ url, commandTimeout: PATIENT_MS }),
): OpenedRedis {
  let server: RedisServer
  let store: RedisStore
  beforeAll(async () => {
    server = await RedisServer.start(options)
    store = await open(server)
  })
  afterAll(async () => {
    await store.close()
    await server.stop()
  })
  return {
    get server() {
      return server
    },
    get store() {
      return store
    },
  }
}
