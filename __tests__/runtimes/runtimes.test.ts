/**
 * The packed package in real runtimes besides Node.js: the same decisions, over real HTTP and a
 * real Redis, too.
 */
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Answer, field, sendRepeatedly, sendRequest, statuses } from '../examples/run.js'
import { link, Release, ROOT } from '../package/release.js'
import { freePort } from '../servers/ports.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { Bridge } from '../wasm/redis/stores.js'
import { ADDON_RIGHTS, BUN, DENO, jsonOutput, NODE, type ServedProgram, serve, serveByWorkerd } from './runtime.js'

let release: Release
let consumer: string

/** The addon's results in Node.js, with which all others are compared. */
let expected: Readonly<Record<string, readonly { readonly status?: string }[]>>

beforeAll(async () => {
  release = await Release.make()
  consumer = await release.install('consumer')
  link(consumer, 'hono')
  cpSync(join(__dirname, 'programs'), consumer, { recursive: true })
  expected = (await jsonOutput(NODE, consumer, 'native.mjs')) as typeof expected
})

afterAll(() => release.remove())

describe('a fixed trace', () => {
  test('has allowed, refused and blocked calls of every algorithm', () => {
    const seen = Object.entries(expected).map(([name, answers]) => {
      const counts = answers.map(({ status }) => status)
      return [name, ['allowed', 'refused', 'blocked'].map((status) => counts.includes(status))]
    })
    expect(seen).not.toEqual([])
    expect(seen).toEqual(seen.map(([name]) => [name, [true, true, true]]))
  })

  test.each([NODE, DENO, BUN])('WebAssembly on $name equals the addon in Node.js', async (runtime) => {
    // On Deno it has no permissions.
    expect(await jsonOutput(runtime, consumer, 'wasm.mjs')).toEqual(expected)
  })

  test.each([DENO, BUN])('the addon on $name equals the one in Node.js', async (runtime) => {
    expect(await jsonOutput(runtime, consumer, 'native.mjs', ADDON_RIGHTS)).toEqual(expected)
  })
})

let redis: RedisServer
let bridge: Bridge

beforeAll(async () => {
  redis = await RedisServer.start()
  bridge = await Bridge.start(redis.port)
})

afterAll(async () => {
  await bridge?.close()
  await redis?.stop()
})

describe.each([
  ['workerd', () => serveByWorkerd(consumer)],
  ['Deno', () => serve(DENO, consumer)],
  ['Bun', () => serve(BUN, consumer)],
])('a server on %s', (name, begin) => {
  let server: ServedProgram

  beforeAll(async () => {
    server = await begin()
  })

  afterAll(() => server?.[Symbol.asyncDispose]())

  test('equals the addon in Node.js on a fixed trace', async () => {
    expect(JSON.parse((await sendRequest(`${server.url}/trace`)).body)).toEqual(expected)
  })

  test.each([
    ['Hono', '/hono', 'x-address', ['2001:db8::1', '2001:db8::2', '2001:db8:0:f::', '2001:db8::1'], '192.0.2.1'],
    ['a Web handler', '/fetch', 'x-api-key', ['ann', 'ann', 'ann', 'ann'], 'bea'],
  ])('limits %s, and sends the rate limit fields', async (_, path, header, values, other) => {
    const answers: Answer[] = []
    for (const value of values) answers.push(await sendRequest(server.url + path, { headers: { [header]: value } }))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429])
    expect(answers.slice(0, 3).map(({ body }) => JSON.parse(body))).toEqual(
      [2, 1, 0].map((remaining) => ({ remaining })),
    )
    expect(answers.map((answer) => field(answer, 'ratelimit-policy'))).toEqual(
      answers.map(() => '"default";q=3;w=3600'),
    )
    const fields = answers.map((answer) => /^"default";r=(\d);t=(\d+)$/.exec(field(answer, 'ratelimit') ?? ''))
    expect(fields.map((parts) => parts?.[1])).toEqual(['2', '1', '0', '0'])
    // Of the third, which takes the last unit, the time until the next one.
    for (const [index, seconds] of [1_200, 2_400, 1_200, 1_200].entries()) {
      expectAbout(fields[index]?.[2], seconds)
    }
    expect(answers.slice(0, 3).map((answer) => field(answer, 'retry-after'))).toEqual([undefined, undefined, undefined])
    expectAbout(field(answers[3], 'retry-after'), 1_200)
    const { status, body } = await sendRequest(server.url + path, { headers: { [header]: other } })
    expect([status, JSON.parse(body)]).toEqual([200, { remaining: 2 }])
  })

  test('refunds failed requests', async () => {
    const answers = await sendRepeatedly(5, `${server.url}/refunded`, { headers: { 'x-api-key': 'bob' } })
    expect(statuses(answers)).toEqual({ 500: 5 })
  })

  test.each([
    ['/hono', 'x-address'],
    ['/fetch', 'x-api-key'],
  ])('answers 400 to an invalid key: %s', async (path, header) => {
    expect(await sendRequest(server.url + path, { headers: { [header]: '' } })).toMatchObject({ status: 400 })
  })

  test('admits all requests in shadow mode, even if only a warning is possible', async () => {
    const answers = await sendRepeatedly(2, `${server.url}/observed`)
    expect(answers.map(({ status, body }) => [status, body])).toEqual([
      [200, 'ok'],
      [200, 'ok'],
    ])
  })

  test('admits a caller again at its retry time, and not before', async () => {
    const startedAt = performance.now()
    const answers: Answer[] = []
    await until('three admitted', async () => {
      answers.push(await sendRequest(`${server.url}/soon`))
      return statuses(answers)['200'] === 3
    })
    expect(performance.now() - startedAt).toBeGreaterThan(598)
    const { 200: admitted, 429: refused = 0 } = statuses(answers)
    expect([admitted, refused + 3]).toEqual([3, answers.length])
  })

  test('keeps one limit for parallel requests through a Redis over HTTP', async () => {
    const headers = { 'x-bridge': bridge.url, 'x-api-key': name }
    const answers = await Promise.all(Array.from({ length: 12 }, () => sendRequest(`${server.url}/redis`, { headers })))
    expect(statuses(answers)).toEqual({ 200: 5, 429: 7 })
    // By now the script is loaded.
    const later = await sendRepeatedly(2, `${server.url}/redis`, {
      headers: { ...headers, 'x-api-key': `${name}, later` },
    })
    expect(statuses(later)).toEqual({ 200: 2 })
  })

  test('makes calls wait for their slots', async () => {
    const waited = JSON.parse((await sendRequest(`${server.url}/wait`)).body) as number[]
    expect(waited).toHaveLength(3)
    expect(waited[0]).toBeLessThan(waited[1] as number)
    expect(waited[2]).toBeGreaterThan(90)
  })
})

describe('the addon', () => {
  test('keeps one limit over Redis on Node.js, Deno and Bun at once', async () => {
    const ports = [redis.port, await freePort()].map(String)
    const runs = [NODE, DENO, BUN].map((runtime) => jsonOutput(runtime, consumer, 'redis.mjs', ADDON_RIGHTS, ...ports))
    const answers = (await Promise.all(runs)) as readonly { readonly statuses: string[]; readonly admitted: number }[]
    expect(answers).toEqual(
      answers.map(({ statuses, admitted }) => ({
        statuses,
        admitted,
        hasWaited: true,
        error: 'INVALID_KEY',
        state: 'up',
        failed: { code: 'STORE_UNAVAILABLE', charged: false },
      })),
    )
    const few = answers.flatMap(({ statuses }) => statuses).sort()
    expect(few).toEqual([...Array(4).fill('allowed'), 'allowed-last', ...Array(13).fill('refused')])
    expect(answers.reduce((sum, { admitted }) => sum + admitted, 0)).toBe(4_000)
  })

  test.each([
    ['no rights', []],
    ['no right to load addons', ['--allow-read', '--allow-env']],
    ['no right to read', ['--allow-ffi', '--allow-env']],
    ['no right to see the environment', ['--allow-ffi', '--allow-read']],
  ])('names the permissions that it needs on Deno: %s', async (_, rights) => {
    await expect(jsonOutput(DENO, consumer, 'native.mjs', rights)).rejects.toThrow(
      `Error: tollgate: Deno loads addons only with ${ADDON_RIGHTS.join(' ')}`,
    )
  })
})

test("over Redis by Bun's own client, calls of a tick are decided in order, and a lost script is sent again", async () => {
  expect(await jsonOutput(BUN, consumer, 'bun-redis.mjs', [], redis.url)).toEqual([
    ...Array(9).fill('allowed'),
    'allowed-last',
    'refused',
    'refused',
  ])
})

test('the page of platforms has the versions that are tested here', () => {
  const { devDependencies } = JSON.parse(readFileSync(join(__dirname, 'package.json'), 'utf8'))
  const page = readFileSync(join(ROOT, 'docs', 'platforms.md'), 'utf8')
  const rows = page.split('\n').filter((line) => /^\| (Deno|Bun|workerd)\b/.test(line))
  expect(rows.map((row) => row.split(' |')[0])).toEqual([
    `| Deno ${devDependencies.deno}`,
    `| Bun ${devDependencies.bun}`,
    `| workerd ${devDependencies.workerd} (Cloudflare Workers)`,
  ])
})

/** Rounds to whole seconds, some of which may have passed. */
function expectAbout(text: string | undefined, seconds: number): void {
  expect(Number(text)).toBeGreaterThan(seconds - 60)
  expect(Number(text)).toBeLessThanOrEqual(seconds)
}
