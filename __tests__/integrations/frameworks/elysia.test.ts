/** The app of docs/middleware/elysia.md, on Node.js with @elysiajs/node. */
import { ask, newAddress, remaining, testRecipe } from './recipes.js'

testRecipe({
  app: 'elysia',
  server: ['./src/index.ts'],
  free: [],
  login: { method: 'POST', path: '/login' },
  options: 404,
  refusal: /^Too many requests/,
})

test('unknown paths are counted', async () => {
  const from = newAddress()
  const { status, headers } = await ask({ from, path: '/none' })
  expect([status, headers['ratelimit']]).toEqual([404, '"requests";r=19;t=1'])
  expect(remaining(await ask({ from }))).toBe(18)
})
