/** The app of docs/middleware/sveltekit.md, built by SvelteKit with adapter-node. */
import { type Ask, ask, FORM, newAddress, remaining, serve, testRecipe } from './recipes.js'

testRecipe({
  app: 'sveltekit',
  build: ['vite/bin/vite.js', 'build'],
  server: ['build/index.js'],
  // Without it the server takes itself for one over HTTPS, and a form for one of another site.
  env: { PROTOCOL_HEADER: 'x-forwarded-proto' },
  free: ['/about', '/robots.txt'],
  login: { ...FORM, headers: { ...FORM.headers, 'x-forwarded-proto': 'http' }, path: '/login' },
  options: 204,
  refusal: '<h1>Too many requests</h1>',
})

test('the client of SvelteKit reads the message of a refusal', async () => {
  const from = newAddress()
  await Promise.all(Array.from({ length: 20 }, () => ask({ from })))
  const { status, headers, body } = await ask({ from, path: '/__data.json', headers: { accept: '*/*' } })
  expect([status, headers['retry-after'], JSON.parse(body)]).toEqual([429, '1', { message: 'Too many requests' }])
})

test('a page that has not changed is counted, and its answer has no headers', async () => {
  const from = newAddress()
  const { etag } = (await ask({ from })).headers
  const { status, headers } = await ask({ from, headers: { 'if-none-match': `${etag}` } })
  expect([status, headers['ratelimit']]).toEqual([304, undefined])
  expect(remaining(await ask({ from }))).toBe(17)
})

test('with ADDRESS_HEADER the address is the one that the proxy adds', async () => {
  const proxied = await serve({ ADDRESS_HEADER: 'x-forwarded-for' })
  const headers = { 'x-forwarded-for': '198.51.100.1, 192.0.2.1' }
  expect(remaining(await ask({ headers }, proxied))).toBe(19)
  expect(remaining(await ask({ headers: { 'x-forwarded-for': '198.51.100.2, 192.0.2.1' } }, proxied))).toBe(18)
})

test('a form of another origin is refused by SvelteKit, and not counted', async () => {
  const from = newAddress()
  const login: Ask = { ...FORM, from, path: '/login' }
  const other = await ask({ ...login, headers: { ...FORM.headers, origin: 'https://other.example' } })
  expect([other.status, other.headers['ratelimit']]).toEqual([403, undefined])
  const own = await ask({ ...login, headers: { ...FORM.headers, 'x-forwarded-proto': 'http' } })
  expect(own.headers['ratelimit']).toBe('"logins";r=4;t=3600')
})
