/** The app of docs/middleware/sveltekit.md, built by SvelteKit with adapter-node. */
import { RedisServer } from '../../servers/redis-server.js'
import { type Served, Site } from './site.js'

let redis: RedisServer
let site: Site
let app: Served

beforeAll(async () => {
  redis = await RedisServer.start({ timeUs: Date.UTC(2026, 5, 1) * 1_000 })
  site = new Site('sveltekit')
  await site.build('vite/bin/vite.js', 'build')
  app = await serve()
})

afterAll(async () => {
  await site[Symbol.asyncDispose]()
  await redis.stop()
})

const serve = () => site.serve({ REDIS_URL: redis.url, ADDRESS_HEADER: 'x-forwarded-for' }, 'build/index.js')

test('x', async () => {
  for (const path of ['/', '/about', '/login', '/api', '/robots.txt', '/__data.json', '/none']) {
    const r = await fetch(app.url + path, { headers: { 'x-forwarded-for': '192.0.2.1' } })
    console.log(path, r.status, Object.fromEntries(r.headers), (await r.text()).slice(0, 200))
  }
})
