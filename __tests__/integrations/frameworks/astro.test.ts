/** The app of docs/middleware/astro.md, built by Astro with @astrojs/node. */
import { RedisServer } from '../../servers/redis-server.js'
import { type Served, Site } from './site.js'

let redis: RedisServer
let site: Site
let app: Served

beforeAll(async () => {
  redis = await RedisServer.start({ timeUs: Date.UTC(2026, 5, 1) * 1_000 })
  site = new Site('astro')
  await site.build('astro/bin/astro.mjs', 'build')
  app = await serve()
})

afterAll(async () => {
  await site[Symbol.asyncDispose]()
  await redis.stop()
})

const serve = () => site.serve({ REDIS_URL: redis.url }, 'dist/server/entry.mjs')

test('x', async () => {
  const show = async (path: string, init: RequestInit = {}) => {
    const r = await fetch(app.url + path, { ...init, headers: { origin: app.url, 'x-forwarded-for': '192.0.2.1', ...init.headers } })
    console.log(path, r.status, Object.fromEntries(r.headers), (await r.text()).slice(0, 200))
  }
  for (const path of ['/', '/about', '/login', '/api', '/robots.txt', '/none', '/429', '/_actions/login', '/?_action=login']) {
    await show(path)
  }
  const form = { method: 'POST', body: new URLSearchParams({ name: 'ann' }) }
  for (let i=0;i<4; i++) {
    await show('/_actions/login', form)
    await show('/login?_action=login', form)
  }
  for (let i=0;i<22; i++) await fetch(app.url, { headers: { 'x-forwarded-for': '192.0.2.1' } })
  for (const path of ['/', '/api', '/none']) {
    await show(path)
  }
})
