// The limits of the app. Next.js bundles the proxy and the routes apart, so each has its own copy of this
// module. A store with a name has one state in the process all the same; with several processes, use a
// RedisStore.
import { fixedWindow, gcra, MemoryStore, RateLimiter } from 'tollgate'
import { ipKey } from 'tollgate/fetch'

const store = new MemoryStore({ name: 'app' })

export const everything = new RateLimiter(gcra({ limit: 20, period: '1s' }), { store, prefix: 'all' })
export const reports = new RateLimiter(fixedWindow({ limit: 3, window: '1h' }), { store, prefix: 'reports' })

/**
 * The client's address. Next.js passes it on only in this header. A client can write the header itself,
 * unless a proxy before Next.js replaces it: use the user's name or an API key where you have one.
 *
 * @param {Request} request
 */
export function clientOf(request) {
  return ipKey(request.headers.get('x-forwarded-for')?.split(',').at(-1)?.trim() ?? '')
}
