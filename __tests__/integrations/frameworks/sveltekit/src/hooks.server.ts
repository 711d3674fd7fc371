// src/hooks.server.ts
import type { Handle } from '@sveltejs/kit/hooks'
import { fixedWindow, gcra, RateLimiter, RedisStore } from 'tollgate'
import { ipKey, withRateLimit } from 'tollgate/fetch'
import { building } from '$app/env'

const store = new RedisStore({ url: process.env['REDIS_URL'] ?? 'redis://localhost:6379' })
const pages = new RateLimiter(gcra({ limit: 100, period: '1m', burst: 20 }), { store, prefix: 'pages' })
const logins = new RateLimiter(fixedWindow({ limit: 5, window: '1h' }), { store, prefix: 'logins' })

type Input = Parameters<Handle>[0]

const options = {
  key: (_: Request, { event }: Input) => ipKey(event.getClientAddress()),
  // A browser that loads a page gets HTML. SvelteKit's client reads the message of JSON.
  handler: (request: Request) =>
    request.headers.get('accept')?.includes('text/html')
      ? new Response('<h1>Too many requests</h1>', { status: 429, headers: { 'content-type': 'text/html' } })
      : Response.json({ message: 'Too many requests' }, { status: 429 }),
}
const limitPages = withRateLimit((_, { event, resolve }: Input) => resolve(event), { ...options, limiter: pages })
const limitLogins = withRateLimit((_, { event, resolve }: Input) => resolve(event), { ...options, limiter: logins })

export const handle: Handle = (input) => {
  const { request, route } = input.event
  if (building) {
    return input.resolve(input.event)
  }
  return route.id === '/login' && request.method === 'POST' ? limitLogins(request, input) : limitPages(request, input)
}
