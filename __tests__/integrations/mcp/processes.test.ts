/** Three server processes share limits in one Redis, and one of them is killed while its tools run. */
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { concurrency, fixedWindow, RateLimiter, RedisStore } from '../../../ts/index.js'
import { PATIENT_MS } from '../../redis/help.js'
import { RedisServer } from '../../servers/redis-server.js'
import { startProgram } from '../node.js'

const LIMIT = 3_000

/** The most tools that run at a time. */
const AT_ONCE = 10

interface Line {
  readonly url?: string
  readonly ran?: number
  readonly how?: string
  readonly status?: string
}

const started: { kill(signal: 'SIGKILL'): boolean }[] = []

afterEach(() => {
  for (const program of started.splice(0)) {
    program.kill('SIGKILL')
  }
})

function start(file: string, options: object) {
  const program = startProgram(join(__dirname, file), JSON.stringify(options))
  const lines: Line[] = []
  const reader = createInterface(program.stdout).on('line', (line) => lines.push(JSON.parse(line)))
  started.push(program)
  const has = async (count: number, is: (line: Line) => unknown) => {
    while (lines.filter(is).length < count) {
      await once(reader, 'line')
    }
    return lines.find(is)
  }
  return { program, lines, has, closed: once(reader, 'close') }
}

test.each([
  ['server', 'client'],
  ['server-2.0', 'client-2.0'],
])('no tool of %s runs without a charge, and none is charged twice', async (version, clientVersion) => {
  await using redis = await RedisServer.start({ hasOwnClock: true })
  const options = { version, redis: redis.url, limit: LIMIT }
  const [victim, ...others] = [1, 2, 3].map(() => start('server.mjs', options))
  const urlOf = async (server: ReturnType<typeof start>) => (await server.has(1, ({ url }) => url))?.url
  const hanging = start('hanging.mjs', { version: clientVersion, url: await urlOf(victim as ReturnType<typeof start>) })
  await victim?.has(5, ({ how }) => how === 'hang')
  const urls = await Promise.all(others.map(urlOf))
  const callers = start('callers.mjs', { version: clientVersion, urls })
  await callers.has(1, ({ status }) => status)
  victim?.program.kill('SIGKILL')
  await Promise.all([victim?.closed, hanging.closed, callers.closed])

  await using store = new RedisStore({ url: redis.url, commandTimeout: PATIENT_MS })
  const policies = {
    calls: fixedWindow({ limit: 1_000_000, window: '1d', meter: 'calls' }),
    letters: fixedWindow({ limit: LIMIT, window: '1d', meter: 'letters' }),
    atOnce: concurrency({ limit: AT_ONCE, meter: 'tools', defaultCost: 1, ttl: '10m' }),
  }
  const limiter = new RateLimiter(policies, { store, prefix: 'tools' })
  const used = async () => {
    const { policies } = await limiter.peek('sub:ann', { cost: { calls: 0, letters: 0 } })
    return { calls: policies.calls.used, letters: policies.letters.used, tools: policies.atOnce.used }
  }
  while ((await used()).tools > 5) {
    // Tools of cancelled calls end after their callers.
    await new Promise(setImmediate)
  }
  for (const { program } of others) {
    program.kill('SIGKILL')
  }
  await Promise.all(others.map(({ closed }) => closed))
  const ran = [victim, ...others].flatMap((server) => server?.lines ?? []).filter((line) => line.ran !== undefined)
  const letters = ran.reduce((sum, line) => sum + (line.ran ?? 0), 0)
  expect(new Set(ran.map(({ how }) => how))).toEqual(new Set(['answer', 'fail', 'wait', 'hang']))

  // The permits of the killed process are held until they expire.
  expect(await used()).toEqual({ calls: ran.length, letters, tools: 5 })
  expect(letters).toBeLessThanOrEqual(LIMIT)
  await redis.stepClock(1_200)
  expect(await used()).toEqual({ calls: ran.length, letters, tools: 0 })
  await limiter.close()
})
