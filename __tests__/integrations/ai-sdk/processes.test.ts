/** Three processes share a budget in one Redis, and one of them is killed while its models answer. */
import { join } from 'node:path'
import { fixedWindow, RateLimiter, RedisStore } from '../../../ts/index.js'
import { PATIENT_MS } from '../../redis/help.js'
import { RedisServer } from '../../servers/redis-server.js'
import { linesOf, startProgram } from '../node.js'
import { Provider } from './server.js'

const LIMIT = 6_000

/** What a call reserves. */
const ESTIMATE = 100

interface Line {
  readonly begun?: true
  readonly outcome?: 'finished' | 'aborted' | 'failed'
  readonly settled?: boolean
  readonly tokens?: number
}

const started: { kill(signal: 'SIGKILL'): boolean }[] = []

afterEach(() => {
  for (const program of started.splice(0)) {
    program.kill('SIGKILL')
  }
})

test('each call is charged once: the calls that were settled, and the estimates of those that were not', async () => {
  await using server = await RedisServer.start({ hasOwnClock: true })
  const provider = await Provider.start()
  const start = (name: string) => {
    const options = { url: provider.url, redis: server.url, limit: LIMIT, name, isVictim: name === 'victim' }
    const program = startProgram(join(__dirname, 'process.mjs'), JSON.stringify(options))
    started.push(program)
    return { program, ...linesOf<Line>(program) }
  }
  const victim = start('victim')
  await victim.has(8, ({ begun }) => begun)
  const others = [start('first'), start('second')]
  await Promise.all(others.map((other) => other.has(5, ({ outcome }) => outcome)))
  victim.program.kill('SIGKILL')
  await Promise.all([victim, ...others].map(({ closed }) => closed))
  await provider.stop()

  const charges = [victim, ...others].flatMap(({ lines }) => lines).filter(({ outcome }) => outcome !== undefined)
  expect(charges.every(({ settled }) => settled)).toBe(true)
  expect(new Set(charges.map(({ outcome }) => outcome))).toEqual(new Set(['finished', 'aborted', 'failed']))
  expect(victim.lines.filter(({ outcome }) => outcome !== undefined)).toHaveLength(5)
  const committed = charges.reduce((sum, { tokens = 0 }) => sum + tokens, 0)
  const answered = charges.filter(({ outcome }) => outcome !== 'failed').length

  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const policies = {
    requests: fixedWindow({ limit: 1_000_000, window: '1d', meter: 'requests' }),
    tokens: fixedWindow({ limit: LIMIT, window: '1d', meter: 'tokens' }),
  }
  const limiter = new RateLimiter(policies, { store, prefix: 'shared' })
  const used = async () => {
    const { policies } = await limiter.peek('a', { cost: { requests: 0, tokens: 0 } })
    return { requests: policies.requests.used, tokens: policies.tokens.used }
  }
  const expected = { requests: answered + 3, tokens: committed + 3 * ESTIMATE }
  expect(await used()).toEqual(expected)
  // The others ended when no further estimate fitted.
  expect(expected.tokens).toBeLessThanOrEqual(LIMIT)
  expect(expected.tokens).toBeGreaterThan(LIMIT - ESTIMATE)
  // The reservations of the killed process end. Their units count as used.
  await server.stepClock(600)
  expect(await used()).toEqual(expected)
  await limiter.close()
})
