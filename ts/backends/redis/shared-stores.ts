import { RedisStore } from './redis-store.js'

/** The stores of limiters that were given URLs: one connection per URL. */
const stores = new Map<string, { readonly store: RedisStore; users: number }>()

/** The store of a URL, which closes when its last user releases it. @throws {TollgateError} `INVALID_OPTION` */
export function sharedStore(url: string) {
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
