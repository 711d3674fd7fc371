/** The app of docs/middleware/react-router.md, built by React Router and served by react-router-serve. */
import { RedisServer } from '../../servers/redis-server.js'
import { type Served, Site } from './site.js'

let redis: RedisServer
let site: Site
let app: Served

beforeAll(async () => {
  redis = await RedisServer.start({ timeUs: Date.UTC(2026, 5, 1) * 1_000 })
  site = new Site('react-router')
  await site.build('@react-router/dev/bin.cjs', 'build')
  app = await serve()
})

afterAll(async () => {
  await site[Symbol.asyncDispose]()
  await redis.stop()
})

const serve = () => site.serve({ REDIS_URL: redis.url }, '@react-router/serve/bin.cjs', 'build/server/index.js')

test('x', async () => {
  for (const path of ['/', '/about', '/login', '/api', '/robots.txt', '/_root.data', '/_root.data?_routes=routes/home', '/login.data','/none', '/about.data']) {
    const r = await fetch(app.url + path, { headers: { 'x-forwarded-for': '192.0.2.1' } })
    console.log(path, r.status, Object.fromEntries(r.headers), (await r.text()).slice(0, 200))
  }
  for (let i=0;i<12; i++) await fetch(app.url, { headers: { 'x-forwarded-for': '192.0.2.1' } })
  for (const path of ['/', '/login', '/api', '/_root.data', '/login.data']) {
    const r = await fetch(app.url + path, { headers: { 'x-forwarded-for': '192.0.2.1' } })
    console.log(path, r.status, Object.fromEntries(r.headers), (await r.text()).slice(0, 300))
  }
})
