/** The app of docs/middleware/react-router.md, built by React Router and served by react-router-serve. */
import { ask, FORM, newAddress, remaining, testRecipe } from './recipes.js'

testRecipe({
  app: 'react-router',
  build: ['@react-router/dev/bin.cjs', 'build'],
  server: ['@react-router/serve/bin.cjs', 'build/server/index.js'],
  isProxied: true,
  free: ['/about/', '/about.data', '/robots.txt'],
  login: { ...FORM, path: '/login' },
  options: 405,
  answersOptions: true,
  refusal: '<h1>Too many requests</h1>',
})

test('data of the client is limited, also for chosen routes, and a refusal is an error that it decodes', async () => {
  const from = newAddress()
  expect(remaining(await ask({ from, path: '/login.data' }))).toBe(19)
  expect(remaining(await ask({ from, path: '/login.data?_routes=routes/login' }))).toBe(18)
  await Promise.all(Array.from({ length: 18 }, () => ask({ from })))
  const { status, headers, body } = await ask({ from, path: '/login.data' })
  expect([status, headers['retry-after']]).toEqual([429, '1'])
  expect(body).toContain('"ErrorResponse"')
  expect(body).toContain('"Too many requests",429')
})

test('a path without a route runs no middleware', async () => {
  const from = newAddress()
  const { status, headers } = await ask({ from, path: '/none' })
  expect([status, headers['ratelimit']]).toEqual([404, undefined])
  expect(remaining(await ask({ from }))).toBe(19)
})
