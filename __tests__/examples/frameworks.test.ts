/** The examples of frameworks over real HTTP: their admissions and their header fields. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { type Answer, endInOrder, field, ROOT, sendRepeatedly, sendRequest, serve, statuses } from './run.js'

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

/** The remaining units in `RateLimit`. */
const remaining = (answer: Answer | undefined) => Number(/r=(\d+)/.exec(field(answer, 'ratelimit') ?? '')?.[1])

describe('examples/express.mjs', () => {
  test("is the README's app, on a configurable port", () => {
    const blocks = [...read('README.md').matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, code]) => code ?? '')
    const app = blocks.find((code) => code.includes("'tollgate/express'") && code.includes('app.listen(')) ?? 'none'
    const [code = '', port] = app.trimEnd().split(/^app\.listen\((\d+)\)$/m)
    expect(port).toBe('3000')
    // An example prints more about its port, and shuts down cleanly. All other lines are the same.
    expect(read('examples/express.mjs')).toContain(`\n${code}const server = app.listen(process.env.PORT ?? ${port}, `)
  })

  test('admits the burst and the rate, and tells refused clients to retry after a second', async () => {
    await using app = await serve('examples/express.mjs')
    const startedAt = performance.now()
    const first = await sendRequest(app.url)
    expect(JSON.parse(first.body)).toEqual({ hello: 'world' })
    expect(field(first, 'ratelimit-policy')).toBe('"default";q=20;w=2')
    expect(field(first, 'ratelimit')).toBe('"default";r=19;t=1')
    const others = await Promise.all(Array.from({ length: 99 }, () => sendRequest(app.url)))
    const bound = 20 + (10 * (performance.now() - startedAt)) / 1000
    const { 200: admitted = 0, 429: refused = 0 } = statuses([first, ...others])
    expect(admitted + refused).toBe(100)
    expect(admitted).toBeGreaterThanOrEqual(20)
    expect(admitted).toBeLessThanOrEqual(bound)
    for (const answer of others) expect(field(answer, 'retry-after')).toBe(answer.status === 429 ? '1' : undefined)
    await endInOrder(app)
  })
})

describe('examples/fastify.mjs', () => {
  test('an expensive route has its own limit besides the global one, and failures are refunded', async () => {
    await using app = await serve('examples/fastify.mjs')
    expect(field(await sendRequest(app.url), 'ratelimit-policy')).toBe('"api";q=50;w=30')
    expect(statuses(await sendRepeatedly(6, `${app.url}/report`))).toEqual({ 400: 6 })
    const reports = await sendRepeatedly(5, `${app.url}/report?month=5`)
    expect(reports.map(({ status }) => status)).toEqual([200, 200, 200, 200, 429])
    expect(reports.slice(0, 4).map(({ body }) => JSON.parse(body).remaining)).toEqual([3, 2, 1, 0])
    // At most an hour after the first was admitted.
    expect(Number(field(reports[4], 'retry-after'))).toBeGreaterThan(3500)
    expect(Number(field(reports[4], 'retry-after'))).toBeLessThanOrEqual(3600)
    expect((await sendRequest(app.url)).status).toBe(200)
    await endInOrder(app)
  })

  test('processes share the state in Redis, and continue with half of the numbers during an outage', async () => {
    await using server = await RedisServer.start()
    const env = { REDIS_URL: server.url }
    await using one = await serve('examples/fastify.mjs', env)
    await using other = await serve('examples/fastify.mjs', env)
    const report = '/report?month=5'
    const answers = [...(await sendRepeatedly(3, one.url + report)), ...(await sendRepeatedly(3, other.url + report))]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 429, 429])
    await server.kill()
    // Calls made while Redis goes away may wait for their deadlines.
    await until(
      'the process decides by itself',
      async () => field(await sendRequest(one.url), 'ratelimit-policy') === '"api";q=25;w=30',
    )
    const alone = await sendRepeatedly(3, one.url + report)
    expect(alone.map(({ status }) => status)).toEqual([200, 200, 429])
    await endInOrder(one)
    await endInOrder(other)
  })
})

test('examples/hono.mjs: customers pay by cost, all other clients are limited by address', async () => {
  await using app = await serve('examples/hono.mjs')
  const words = `${app.url}/words`
  const ann = { headers: { 'x-api-key': 'secret-of-ann' } }
  const first = await sendRequest(words, ann)
  expect(JSON.parse(first.body)).toEqual({ words: ['toll', 'gate'], customer: 'ann' })
  expect(field(first, 'ratelimit-policy')).toBe('"default";q=60;w=3600')
  const added = await sendRepeatedly(11, words, { ...ann, method: 'POST' })
  expect(statuses(added)).toEqual({ 201: 11 })
  expect(remaining(added.at(-1))).toBe(60 - 1 - 11 * 5)
  const refused = await sendRequest(words, { ...ann, method: 'POST' })
  expect(refused.status).toBe(429)
  // One unit returns in a minute.
  const { retryAfterMs } = JSON.parse(refused.body)
  expect(Number(field(refused, 'retry-after'))).toBe(Math.ceil(retryAfterMs / 1000))
  expect(retryAfterMs).toBeLessThanOrEqual(60_000)
  expect(statuses(await sendRepeatedly(4, words, ann))).toEqual({ 200: 4 })
  expect((await sendRequest(words, { headers: { 'x-api-key': 'secret-of-bob' } })).status).toBe(200)

  // Invalid API keys change nothing: 6 for each address.
  const guesses = []
  for (let guess = 0; guess < 8; guess++)
    guesses.push(await sendRequest(words, { headers: { 'x-api-key': `guess ${guess}` } }))
  expect(guesses.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200, 429, 429])
  expect((await sendRequest(words, { from: '127.0.0.2' })).status).toBe(200)
  const health = await sendRepeatedly(10, `${app.url}/health`)
  expect(statuses(health)).toEqual({ 200: 10 })
  expect(field(health[0], 'ratelimit')).toBeUndefined()
  await endInOrder(app)
})

describe('examples/nest', () => {
  beforeAll(() => {
    execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'examples/nest'], {
      cwd: ROOT,
      stdio: 'pipe',
    })
  })

  test.each(['in the process', 'over Redis'])(
    'routes have their own limits, and failures are refunded: %s',
    async (place) => {
      await using server = place === 'over Redis' ? await RedisServer.start() : undefined
      await using app = await serve('target/examples/nest/main.js', { REDIS_URL: server?.url ?? '' })
      const words = `${app.url}/words`
      const first = await sendRequest(words)
      expect(JSON.parse(first.body)).toEqual({ words: ['toll', 'gate'] })
      expect(field(first, 'ratelimit')).toBe('"api";r=19;t=180')
      expect(statuses(await sendRepeatedly(6, words, { json: { wrong: true } }))).toEqual({ 400: 6 })
      const added = await sendRepeatedly(4, words, { json: { word: 'bar' } })
      expect(added.map(({ status }) => status)).toEqual([201, 201, 201, 429])
      expect(added.slice(0, 3).map(remaining)).toEqual([14, 9, 4])
      expect(JSON.parse(added[3]?.body ?? '')).toEqual({ error: 'Too many requests', retryAfterMs: expect.any(Number) })
      expect(statuses(await sendRepeatedly(6, words))).toEqual({ 200: 4, 429: 2 })
      expect(statuses(await sendRepeatedly(30, `${app.url}/health`))).toEqual({ 200: 30 })
      // Nest's shutdown hooks have run, and then the signal ends the process, as usual.
      expect(await app.end('SIGTERM')).toEqual({ code: null, stderr: '' })
    },
  )
})
