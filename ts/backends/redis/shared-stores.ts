import { RedisStore } from './redis-store.js'

/** The stores of limiters that were given URLs: one connection per URL. */
const stores = new Map<string, { readonly store: RedisStore; users: number }>()

/** A store that several limiters share, and how a limiter releases it. */
export interface SharedStore {
  readonly store: RedisStore
  /** Closes the store after its last user. */
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
