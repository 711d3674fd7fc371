import { RedisStore } from './redis-store.js'

const stores = new Map<string, { readonly store: RedisStore; users: number }>()

export interface SharedStore {
  readonly store: RedisStore
  /** Closes the store after its last user. */
  release(): Promise<void>
}

/** The store of a URL. @throws {TollgateError} `INVALID_OPTION` */
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
