/** The example for Next.js: built and served with the packed package. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Release, ROOT, run } from './release.js'

const EXAMPLE = join(ROOT, 'examples', 'next')

let release: Release
let server: ChildProcess | undefined
let url: string

beforeAll(async () => {
  release = await Release.make()
  const app = await release.install('app')
  // Turbopack follows no links out of the app's folder.
  cpSync(EXAMPLE, app, { recursive: true, filter: (path) => !/node_modules.tollgate$|\.next$/.test(path) })
  const next = join(app, 'node_modules', 'next', 'dist', 'bin', 'next')
  Object.assign(process.env, { NEXT_TELEMETRY_DISABLED: '1' })
  await run('node', [next, 'build'], app)
  server = spawn('node', [next, 'start', '--port', '0', '--hostname', '127.0.0.1'], { cwd: app })
  for await (const line of createInterface({ input: server.stdout as NodeJS.ReadableStream })) {
    const [found] = /http:\/\/127\.0\.0\.1:\d+/.exec(line) ?? []
    if (found !== undefined) {
      url = found
      break
    }
  }
})

afterAll(async () => {
  if (server?.exitCode === null) {
    server.kill()
    await once(server, 'exit')
  }
  release.remove()
  rmSync(join(EXAMPLE, '.next'), { recursive: true, force: true })
})

const get = (path: string, address: string) => fetch(url + path, { headers: { 'x-forwarded-for': address } })

test('a route handler has its own limit, with the headers', async () => {
  for (const remaining of [2, 1, 0]) {
    const response = await get('/reports', '192.0.2.1')
    expect(response.status).toBe(200)
    expect(response.headers.get('ratelimit')).toMatch(new RegExp(`^"reports";r=${remaining};t=360[01]$`))
    expect(await response.json()).toEqual({ report: 'sales' })
  }
  const refused = await get('/reports', '192.0.2.1')
  expect(refused.status).toBe(429)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3_590)
  expect((await get('/reports', '192.0.2.2')).status).toBe(200)
})

test('the proxy limits all routes, and its counts are those of one store', async () => {
  const start = performance.now()
  const answers = await Promise.all(Array.from({ length: 200 }, () => get('/api/hello', '192.0.2.3')))
  const statuses = answers.map(({ status }) => status)
  const admitted = statuses.filter((status) => status === 200).length
  expect(new Set(statuses)).toEqual(new Set([200, 429]))
  // The policy admits 20 requests at once, and 20 per second after that.
  expect(admitted).toBeGreaterThanOrEqual(20)
  expect(admitted).toBeLessThanOrEqual(20 + (20 * (performance.now() - start)) / 1_000)
})
