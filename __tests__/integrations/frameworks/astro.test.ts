/** The app of docs/middleware/astro.md, built by Astro with @astrojs/node. */
import { ask, FORM, newAddress, remaining, testRecipe } from './recipes.js'

testRecipe({
  app: 'astro',
  build: ['astro/bin/astro.mjs', 'build'],
  server: ['dist/server/entry.mjs'],
  free: ['/about', '/robots.txt'],
  login: { ...FORM, path: '/login?_action=login' },
  options: 200,
  refusal: '<h1>Too many requests</h1>',
})

test('an action that is refused does not run, called by a form or by code', async () => {
  const from = newAddress()
  const loginsOf = async () => (await ask({ path: '/api', from: newAddress() })).body
  for (let count = 0; count < 5; count++) {
    await ask({ from, ...FORM, path: '/_actions/login' })
  }
  const before = await loginsOf()
  const form = await ask({ from, ...FORM, path: '/login?_action=login' })
  expect([form.status, form.body]).toEqual([429, expect.stringContaining('<h1>Too many requests</h1>')])
  const code = await ask({ from, ...FORM, path: '/_actions/login' })
  expect([code.status, code.headers['retry-after']]).toEqual([429, '3600'])
  expect(JSON.parse(code.body)).toMatchObject({ type: 'AstroActionError', code: 'TOO_MANY_REQUESTS' })
  expect(await loginsOf()).toBe(before)
})

test('each spelling of an action counts as an action', async () => {
  const from = newAddress()
  for (const [index, path] of ['/_actions/login', '/_actions/login/', '/?_action=%256Cogin'].entries()) {
    const { status, headers } = await ask({ from, ...FORM, path })
    expect([path, status, headers['ratelimit']]).toEqual([path, 200, `"actions";r=${4 - index};t=3600`])
  }
})

test('an endpoint is refused with the page', async () => {
  const from = newAddress()
  await Promise.all(Array.from({ length: 20 }, () => ask({ from })))
  expect(await ask({ from, path: '/api' })).toMatchObject({ status: 429, body: expect.stringContaining('<h1>') })
})

test('an error page, for which Astro calls the middleware again, is counted once', async () => {
  const from = newAddress()
  expect((await ask({ from, path: '/_actions/login' })).status).toBe(404)
  expect(remaining(await ask({ from }))).toBe(18)
})
