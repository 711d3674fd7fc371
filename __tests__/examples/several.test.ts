/**
 * The examples of one limit in several threads and of limits by tier, and rules for all examples.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import {
  type Answer,
  endInOrder,
  field,
  ROOT,
  type ServedExample,
  sendRepeatedly,
  sendRequest,
  serve,
  start,
  statuses,
} from './run.js'

test('examples/worker-threads.mjs: four threads keep one limit exactly', async () => {
  await using example = start('examples/worker-threads.mjs')
  expect(await example.end()).toEqual({ code: 0, stderr: '' })
  const [one, two, three, four, ...rest] = example.lines
  const admitted = [one, two, three, four].map((line) =>
    Number(/^thread \d+: (\d+) of 1000 calls admitted$/.exec(line ?? '')?.[1]),
  )
  expect(admitted.reduce((sum, count) => sum + count, 0)).toBe(1_000)
  expect(rest).toEqual(['together: 1000 of 4000', 'afterwards: refused, 0 remaining'])
})

describe('examples/tiers.mjs', () => {
  const as = (customer: string) => ({ headers: { 'x-customer': customer } })
  const put = (app: ServedExample, path: string, json: object): Promise<Answer> =>
    sendRequest(`${app.url}/customers/${path}`, { method: 'PUT', json })

  test.each(['in the process', 'over Redis'])(
    'free customers have 3 an hour and pro customers 30, and used units stay charged: %s',
    async (where) => {
      await using server = where === 'over Redis' ? await RedisServer.start() : undefined
      await using app = await serve('examples/tiers.mjs', { REDIS_URL: server?.url ?? '' })
      const reports = `${app.url}/reports`
      expect(statuses(await sendRepeatedly(5, reports, as('ann')))).toEqual({ 200: 3, 429: 2 })
      expect(statuses(await sendRepeatedly(32, reports, as('bob')))).toEqual({ 200: 30, 429: 2 })

      expect((await put(app, 'ann', { plan: 'pro' })).status).toBe(200)
      expect(field(await sendRequest(reports, as('ann')), 'ratelimit')).toContain('"reports";r=26;')
      expect((await put(app, 'bob', { plan: 'free' })).status).toBe(200)
      expect(field(await sendRequest(reports, as('bob')), 'ratelimit-policy')).toBe('"reports";q=3;w=3600')
      for (const plan of ['gold', 'toString']) expect((await put(app, 'ann', { plan })).status).toBe(400)

      expect((await put(app, 'bob/limit', { limit: 40 })).status).toBe(200)
      expect(field(await sendRequest(reports, as('bob')), 'ratelimit')).toContain('"reports";r=9;')
      await endInOrder(app)
    },
  )

  test('the numbers of a file take effect while the program runs', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-tiers-'))
    const file = join(folder, 'limits.json')
    const write = (free: number, pro: number) => {
      const plan = (limit: number) => ({ algorithm: 'fixedWindow', limit, window: 3_600_000 })
      writeFileSync(file, JSON.stringify({ tiers: { free: plan(free), pro: plan(pro) } }))
    }
    try {
      write(5, 50)
      await using app = await serve('examples/tiers.mjs', { LIMITS: file, WATCH_EVERY_MS: '50' })
      const policy = async () => field(await sendRequest(`${app.url}/reports`, as('ann')), 'ratelimit-policy')
      expect(await policy()).toBe('"reports";q=5;w=3600')
      write(7, 70)
      await until('the new numbers are used', async () => (await policy()) === '"reports";q=7;w=3600')
      await endInOrder(app)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

describe('all examples', () => {
  test.each([
    ['express.mjs', ['/']],
    ['fastify.mjs', ['/', '/report?month=5']],
    ['hono.mjs', ['/words']],
    ['login.mjs', ['/login']],
    ['tiers.mjs', ['/reports']],
    ['llm-gateway.mjs', ['/usage', '/complete']],
    ['prometheus/server.mjs', ['/']],
  ])('%s survives keys that are empty, missing, too long or repeated', async (file, paths) => {
    await using app = await serve(`examples/${file}`, { METRICS_PORT: '0' })
    const names = ['x-api-key', 'x-customer', 'x-client', 'x-forwarded-for']
    for (const value of [undefined, '', 'a'.repeat(1_025), ['ann', 'bob'], ['', '']]) {
      const headers = value === undefined ? {} : Object.fromEntries(names.map((name) => [name, value]))
      for (const path of paths) {
        for (const json of [undefined, { prompt: 'STOP', account: `${value}`, password: '' }]) {
          const { status = 0 } = await sendRequest(app.url + path, { headers, json })
          expect([value, path, status < 500]).toEqual([value, path, true])
        }
      }
    }
    expect((await sendRequest(app.url + paths[0], { headers: { 'x-customer': 'zoe' } })).status).toBeLessThan(500)
  })

  test('examples/tiers.mjs answers wrong customers and numbers with 400', async () => {
    await using app = await serve('examples/tiers.mjs')
    for (const [path, json] of [
      ['ann/limit', {}],
      ['ann/limit', { limit: 'many' }],
      [`${'a'.repeat(1_025)}/limit`, { limit: 5 }],
    ] as const) {
      expect((await sendRequest(`${app.url}/customers/${path}`, { method: 'PUT', json })).status).toBe(400)
    }
  })

  test('type check unchanged', () => {
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')
    execFileSync(process.execPath, [tsc, '-p', 'examples'], { cwd: ROOT, stdio: 'inherit' })
  })

  test('are listed in the table of the README', () => {
    const table = readFileSync(join(ROOT, 'examples', 'README.md'), 'utf8')
    const linked = [...table.matchAll(/^\| \[[^\]]+\]\(([^)]+)\)/gm)].map(([, target]) => target?.replace(/\/$/, ''))
    const there = readdirSync(join(ROOT, 'examples'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() || entry.name.endsWith('.mjs'))
      .map(({ name }) => name)
      // The gateway imports it.
      .filter((name) => name !== 'simulated-model.mjs')
    expect(linked.sort()).toEqual(there.sort())
    for (const file of there.filter((name) => name.endsWith('.mjs'))) {
      const line = `node examples/${file}`
      expect(table).toContain(`\`${line}\``)
      expect(readFileSync(join(ROOT, 'examples', file), 'utf8')).toContain(`// Run it:  ${line}`)
    }
  })
})
