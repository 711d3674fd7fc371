import type { OnStoreFailure, Override, Policies, Policy } from '../../ts/index.js'
import { type KeyOf, type LimitNames, RateLimiter, RedisStore } from '../../ts/index.js'
import type { AnyLimiter } from '../operations/stores.js'
import { openedRedis } from '../redis/opened.js'
import { until } from '../servers/until.js'

/** A limiter over Redis, as tests of any policies use it. */
export type Guarded<P extends Policy | Policies> = AnyLimiter<P> & RateLimiter<KeyOf<P>, LimitNames<P>, Override<P>>

let names = 0

/** A prefix that nobody else uses: fallbacks live as long as the process. */
export function newPrefix(): string {
  return `fallback-${names++}`
}

/** A limiter on a store, under a prefix of its own unless one is named. */
export function guarded<const P extends Policy | Policies>(
  store: RedisStore,
  policies: P,
  onStoreFailure: OnStoreFailure,
  prefix = newPrefix(),
): Guarded<P> {
  return new RateLimiter(policies, { store, prefix, onStoreFailure })
}

/** A way in which a store is away, for the tests of a file. */
export interface Away {
  readonly name: string
  /** A store that is away. */
  store(): RedisStore
}

/** It is there, and refuses every script: each call is asked, and fails. */
export function failing(): Away {
  const config = ['user default on nopass ~* +@all -evalsha -eval']
  const redis = openedRedis({ config })
  return { name: 'a store that fails', store: () => redis.store }
}

/** Known to be down, and frozen: who asked it would wait. */
export function knownDown(): Away {
  const redis = openedRedis({}, async (server) => {
    const store = new RedisStore({ url: server.url, commandTimeoutMs: 200 })
    server.freeze()
    await isDown(store)
    return store
  })
  return { name: 'a store that is known to be down', store: () => redis.store }
}

/** Waits until it is known that a store is down. */
export async function isDown(store: RedisStore): Promise<void> {
  await until('the store is down', async () => store.status().state === 'down' || undefined)
}
