/** The example for Next.js: built and served with the packed package. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { blocksOf } from '../bundlers/page.js'
import { Release, ROOT, run } from './release.js'

const EXAMPLE = join(ROOT, 'examples', 'next')

let release: Release
let app: string
let server: ChildProcess | undefined
let url: string

beforeAll(async () => {
  release = await Release.make()
  app = await release.install('app')
  // Turbopack follows no links out of the app's folder.
  cpSync(EXAMPLE, app, { recursive: true, filter: (path) => !/node_modules.tollgate$|\.next$/.test(path) })
  Object.assign(process.env, { NEXT_TELEMETRY_DISABLED: '1' })
  await run('node', [next(), 'build'], app)
  await serve(app, next(), 'start', '--port', '0', '--hostname', '127.0.0.1')
})

afterAll(async () => {
  await stop()
  release.remove()
  rmSync(join(EXAMPLE, '.next'), { recursive: true, force: true })
})

const next = () => join(app, 'node_modules', 'next', 'dist', 'bin', 'next')

/** Starts a server, and waits for the line with its URL. */
async function serve(folder: string, ...words: string[]): Promise<void> {
  server = spawn('node', words, { cwd: folder, env: { ...process.env, PORT: '0', HOSTNAME: '127.0.0.1' } })
  for await (const line of createInterface({ input: server.stdout as NodeJS.ReadableStream })) {
    const [found] = /http:\/\/127\.0\.0\.1:\d+/.exec(line) ?? []
    if (found !== undefined) {
      url = found
      return
    }
  }
  throw new Error(`${words.join(' ')} did not say where it serves`)
}

async function stop(): Promise<void> {
  if (server?.exitCode === null) {
    server.kill()
    await once(server, 'exit')
  }
}

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

test('the standalone output of docs/bundlers.md works in another folder, without other packages', async () => {
  await stop()
  const [config] = blocksOf('Next.js')
  writeFileSync(join(app, 'next.config.js'), config?.code ?? '')
  await run('node', [next(), 'build'], app)
  const moved = join(release.temp, 'moved')
  cpSync(join(app, '.next', 'standalone'), moved, { recursive: true, verbatimSymlinks: true })
  // A link to it would find nothing.
  renameSync(app, `${app}-gone`)
  await serve(moved, join(moved, 'server.js'))
  const statuses: number[] = []
  for (let count = 0; count < 4; count++) {
    statuses.push((await get('/reports', '192.0.2.4')).status)
  }
  expect(statuses).toEqual([200, 200, 200, 429])
})
