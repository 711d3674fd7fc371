// src/index.ts
import { node } from '@elysiajs/node'
import { Elysia } from 'elysia'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'
import { ipKey, withRateLimit } from 'tollgate/fetch'

const store = new RedisStore({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' })
const requests = new RateLimiter(gcra({ limit: 100, period: '1m', burst: 20 }), { store, prefix: 'requests' })
const logins = new RateLimiter(fixedWindow({ limit: 5, window: '1h' }), { store, prefix: 'logins' })

type Handle = (request: Request) => Promise<Response>

// On Node.js, a request has the property `ip`: the address of the connection. The type `Request` lacks it.
const clientOf = (request: Request & { readonly ip?: string }) => ipKey(request.ip)
const limited = withRateLimit((request, handle: Handle) => handle(request), {
  limiter: requests,
  key: (request) => clientOf(request),
})
const login = withRateLimit(() => Response.json('welcome'), { limiter: logins, key: clientOf })

new Elysia({ adapter: node() })
  .wrap((handle) => (request: Request) => {
    const answer = limited(request, handle as unknown as Handle)
    // An error here, such as one of a key function, would end the process.
    return answer.catch(() => new Response('Internal Server Error', { status: 500 }))
  })
  .get('/', () => 'hello')
  .get('/robots.txt', () => 'User-agent: *')
  .post('/login', ({ request }) => login(request))
  .listen(process.env['PORT'] ?? 3000)
