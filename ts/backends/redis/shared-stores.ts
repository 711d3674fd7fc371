import { RedisStore } from './redis-store.js'

/** The stores that limiters were given as URLs: one connection for each URL. */
const stores = new Map<string, { readonly store: RedisStore; users: number }>()

/** A store that several limiters share, and how one of them lets go of it. */
export interface SharedStore {
  readonly store: RedisStore
  /** Closes the store if nobody else uses it. */
  release(): Promise<void>
}

/**
 * The store of a URL.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 */
export function sharedStore(url: string): SharedStore {
  const shared = stores.get(url) ?? { store: new RedisStore(url), users: 0 }
  stores.set(url, shared)
  shared.users++
  return {
    store: shared.store,
    async release() {
      shared.users--
      if (shared.users === 0) {
        stores.delete(url)
        await shared.store.close()
      }
    },
  }
}
