import type { OnStoreFailure, Policies, Policy } from '../../ts/index.js'
import { RateLimiter, RedisStore } from '../../ts/index.js'
import { openedRedis } from '../redis/opened.js'
import { until } from '../servers/until.js'

let names = 0

/** A unique prefix: fallbacks live as long as the process. */
export function newPrefix(): string {
  return `fallback-${names++}`
}

/** A limiter on a store, under a unique prefix unless one is given. */
export function fallbackLimiter<const P extends Policy | Policies>(
  store: RedisStore,
  policies: P,
  onStoreFailure: OnStoreFailure,
  prefix = newPrefix(),
): RateLimiter<P> {
  return new RateLimiter(policies, { store, prefix, onStoreFailure })
}

/** One kind of outage. */
export interface OutageKind {
  readonly name: string
  /** A store during the outage. */
  store(): RedisStore
}

/** The server runs, and refuses every script: each call is sent, and fails. */
export function failing(): OutageKind {
  const config = ['user default on nopass ~* +@all -evalsha -eval']
  const redis = openedRedis({ config })
  return { name: 'a store that fails', store: () => redis.store }
}

/** Known to be down, and frozen: a call that is sent would wait. */
export function knownDown(): OutageKind {
  const redis = openedRedis({}, async (server) => {
    const store = new RedisStore({ url: server.url, commandTimeout: 200 })
    server.freeze()
    await waitUntilDown(store)
    return store
  })
  return { name: 'a store that is known to be down', store: () => redis.store }
}

/** Waits until a store is known to be down. */
export async function waitUntilDown(store: RedisStore): Promise<void> {
  await until('the store is down', async () => store.status().state === 'down' || undefined)
}
