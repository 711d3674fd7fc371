/**
 * The examples of one limit in several threads and of limits by tier, and rules for all examples.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisServer } from '../servers/redis-server.js'
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

  const turn = (app: ServedExample, customer: string, tier: string): Promise<Answer> =>
    sendRequest(`${app.url}/customers/${customer}`, { method: 'PUT', json: { tier } })

  test.each(['in the process', 'over Redis'])(
    'free customers have 3 an hour and pro customers 30: %s',
    async (place) => {
      await using server = place === 'over Redis' ? await RedisServer.start() : undefined
      await using app = await serve('examples/tiers.mjs', { REDIS_URL: server?.url ?? '' })
      const [reports, searches] = [`${app.url}/reports`, `${app.url}/searches`]
      for (const route of [reports, searches]) {
        expect(statuses(await sendRepeatedly(5, route, as('ann')))).toEqual({ 200: 3, 429: 2 })
        expect(statuses(await sendRepeatedly(32, route, as('bob')))).toEqual({ 200: 30, 429: 2 })
      }

      expect((await turn(app, 'ann', 'pro')).status).toBe(200)
      // With an override the used units still count: 3 of 30. With a separate limiter the count is
      // new.
      expect(field(await sendRequest(reports, as('ann')), 'ratelimit')).toContain('"default";r=26;')
      expect(field(await sendRequest(searches, as('ann')), 'ratelimit')).toContain('"default";r=29;')
      expect(statuses(await sendRepeatedly(28, reports, as('ann')))).toEqual({ 200: 26, 429: 2 })

      expect((await turn(app, 'bob', 'free')).status).toBe(200)
      expect(field(await sendRequest(reports, as('bob')), 'ratelimit-policy')).toBe('"default";q=3;w=3600')
      expect(statuses(await sendRepeatedly(4, searches, as('bob')))).toEqual({ 200: 3, 429: 1 })
      for (const tier of ['gold', 'toString']) expect((await turn(app, 'ann', tier)).status).toBe(400)
      await endInOrder(app)
    },
  )

  test('overrides are renewed before they end; without renewal customers are free ones again', async () => {
    await using server = await RedisServer.start()
    const policy = async (app: ServedExample) =>
      field(await sendRequest(`${app.url}/reports`, as('bob')), 'ratelimit-policy')
    {
      await using app = await serve('examples/tiers.mjs', { REDIS_URL: server.url, RENEW_EVERY_MS: '750' })
      await sleep(2_000)
      // The first overrides have ended, after one and a half seconds.
      expect(await policy(app)).toBe('"default";q=30')
      await endInOrder(app)
    }
    const key = (await server.command<string[]>('KEYS', 'reports:*bob*'))[0] ?? 'none'
    expect(await server.command('EXISTS', key)).toBe(1)
    await sleep(1_600)
    // A process renews when it starts, so the request goes to one that does not know bob.
    const script = `
      import { fixedWindow, RateLimiter, RedisStore } from 'tollgate'
      const store = new RedisStore(process.env.REDIS_URL)
      const reports = new RateLimiter(fixedWindow({ limit: 3, window: '1h' }), { store, prefix: 'reports' })
      console.log((await reports.peek('bob')).limit)
      await store.close()`
    const env = { ...process.env, REDIS_URL: server.url }
    const words = ['--input-type=module', '--eval', script]
    expect(execFileSync(process.execPath, words, { cwd: ROOT, env, encoding: 'utf8' }).trim()).toBe('3')
  })
})

describe('all examples', () => {
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
    expect(linked.sort()).toEqual(there.sort())
    for (const file of there.filter((name) => name.endsWith('.mjs'))) {
      const line = `node examples/${file}`
      expect(table).toContain(`\`${line}\``)
      expect(readFileSync(join(ROOT, 'examples', file), 'utf8')).toContain(`// Run it:  ${line}`)
    }
  })
})
