/** The app of docs/middleware/elysia.md, on Node.js with @elysiajs/node. */
import { RedisServer } from '../../servers/redis-server.js'
import { type Served, Site } from './site.js'

let redis: RedisServer
let site: Site
let app: Served

beforeAll(async () => {
  redis = await RedisServer.start({ timeUs: Date.UTC(2026, 5, 1) * 1_000 })
  site = new Site('elysia')
  app = await serve()
})

afterAll(async () => {
  await site[Symbol.asyncDispose]()
  await redis.stop()
})

const serve = () => site.serve({ REDIS_URL: redis.url }, 'src/index.ts')

test('x', async () => {
  const show = async (path: string, init: RequestInit = {}) => {
    const r = await fetch(app.url + path, { ...init, headers: { origin: app.url, 'x-forwarded-for': '192.0.2.1', ...init.headers } })
    console.log(path, r.status, Object.fromEntries(r.headers), (await r.text()).slice(0, 200))
  }
  for (const path of ['/', '/none', '/login']) {
    await show(path)
  }
  await show('/', {method: 'HEAD'})
  await show('/', {method: 'OPTIONS'})
  const form = { method: 'POST', body: new URLSearchParams({ name: 'ann' }) }
  for (let i=0;i<6; i++) {
    await show('/login', form)
  }
  for (let i=0;i<10; i++) await fetch(app.url, { headers: { 'x-forwarded-for': '192.0.2.1' } })
  await show('/')
  console.log(await redis.command('KEYS', '*'))
})
