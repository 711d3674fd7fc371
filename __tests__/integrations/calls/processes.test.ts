/** Three processes with the blocks of docs/model-sdks.md share one Redis. One is killed while answers stream. */
import { once } from 'node:events'
import { join } from 'node:path'
import { concurrency, fixedWindow, RateLimiter, RedisStore } from '../../../ts/index.js'
import { PATIENT_MS } from '../../redis/help.js'
import { RedisServer } from '../../servers/redis-server.js'
import { Provider } from '../ai-sdk/server.js'
import { linesOf, startProgram } from '../node.js'

interface Line {
  readonly begun?: true
  /** The units of an attempt that ended, by meter. */
  readonly charged?: { readonly [meter: string]: number }
  readonly settled?: boolean
}

/** The answers of the killed process. */
const KILLED = 3

const atOnce = concurrency({ limit: 50, ttl: '30s', meter: 'answers', defaultCost: 1 })
const day = (meter: string, limit: number) => fixedWindow({ limit, window: '1d', meter })

const started: { kill(signal: 'SIGKILL'): boolean }[] = []

afterEach(() => {
  for (const program of started.splice(0)) {
    program.kill('SIGKILL')
  }
})

test.each([
  ['openai', { tokens: 12_000 }],
  ['anthropic', { inputTokens: 1_000_000, outputTokens: 12_000 }],
])('%s: the used units are those of all attempts', async (sdk, limits) => {
  await using server = await RedisServer.start({ hasOwnClock: true })
  const provider = await Provider.start()
  const start = (name: string) => {
    const options = { sdk, url: provider.url, redis: server.url, limits, name, isVictim: name === 'victim' }
    const program = startProgram(join(__dirname, 'process.mjs'), JSON.stringify(options))
    started.push(program)
    return { program, ...linesOf<Line>(program), ended: once(program, 'exit') }
  }
  const victim = start('victim')
  await victim.has(1 + KILLED, ({ begun }) => begun)
  const others = [start('first'), start('second')]
  await Promise.all(others.map((other) => other.has(5, ({ charged }) => charged)))
  victim.program.kill('SIGKILL')
  await Promise.all([victim, ...others].map(({ closed }) => closed))
  expect(await Promise.all(others.map(({ ended }) => ended))).toEqual([
    [0, null],
    [0, null],
  ])
  await provider.stop()

  const attempts = [victim, ...others].flatMap(({ lines }) => lines).filter(({ charged }) => charged !== undefined)
  expect(attempts.every(({ settled }) => settled)).toBe(true)
  // The first call of the killed process was aborted, and charged the same as those that were killed.
  expect(victim.lines.filter(({ charged }) => charged !== undefined)).toHaveLength(1)
  const killed = victim.lines.find(({ charged }) => charged !== undefined)?.charged as Required<Line>['charged']
  const sumOf = (meter: string) =>
    attempts.reduce((sum, { charged }) => sum + (charged?.[meter] as number), KILLED * (killed[meter] as number))

  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const meters = Object.entries(limits)
  const names = sdk === 'anthropic' ? ['input', 'output'] : ['tokens']
  const policies = meters.map(([meter, limit], index) => [names[index] as string, day(meter, limit)] as const)
  const requests = fixedWindow({ limit: sdk === 'anthropic' ? 900 : 450, window: '1d', meter: 'calls' })
  const limiter = new RateLimiter({ requests, ...Object.fromEntries(policies), atOnce }, { store, prefix: sdk })
  const used = async () => {
    const cost = { calls: 0, ...Object.fromEntries(meters.map(([meter]) => [meter, 0])) }
    const decision = await limiter.peek('gpt-5', { cost })
    const numbers = Object.values<{ readonly used: number }>(decision.policies).map((policy) => policy.used)
    return { units: numbers.slice(0, -1), permits: numbers.at(-1) }
  }
  const expected = [attempts.length + KILLED, ...meters.map(([meter]) => sumOf(meter))]
  expect(provider.requests).toBe(expected[0])
  expect((await used()).units).toEqual(expected)
  // The others ended when no further call fitted.
  const [limit = 0, full = 0] = [meters.at(-1)?.[1], expected.at(-1)]
  expect(full).toBeLessThanOrEqual(limit)
  expect(full).toBeGreaterThan(limit - 600)
  // The permits of the killed process end. Its units count as used.
  await server.stepClock(600)
  expect(await used()).toEqual({ units: expected, permits: 0 })
  await limiter.close()
})
