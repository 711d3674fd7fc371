/**
 * `tollgate-cli top` against a real Redis: it finds the hottest keys by SCAN, within its limits on time
 * and sample.
 */

import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { formatPolicyText } from '../../../ts/cli/policy-text.js'
import { Connection } from '../../../ts/cli/redis/connect/connection.js'
import { type HotKey, type HotKeySample, hottest } from '../../../ts/cli/redis/hot-keys.js'
import { fixedWindow, gcra, RateLimiter, RedisStore, slidingLog } from '../../../ts/index.js'
import { openedRedis } from '../../redis/opened.js'
import { RedisServer } from '../../servers/redis-server.js'
import { start, tollgate } from '../command.js'
import { commandsOf, expectQuiet, expectReading, json } from './server.js'

interface TopReport {
  readonly by: 'share' | 'used'
  readonly sample: Omit<HotKeySample, 'byShare' | 'byUsed' | 'hasShares'>
  readonly keys: readonly HotKey[]
}

const redis = openedRedis()

function top(prefix: string, ...more: string[]): string[] {
  return ['top', redis.server.url, '--prefix', prefix, ...more]
}

/** The keys and their used units, in order. */
function ranking({ keys }: TopReport) {
  return keys.map(({ key, used }) => [key, used])
}

test('keys are ranked by the used share of their limit, and blocks and overrides are shown', async () => {
  await using limiter = new RateLimiter(gcra({ limit: 100, period: '100d' }), { store: redis.store, prefix: 'api' })
  await using other = new RateLimiter(gcra({ limit: 100, period: '100d' }), { store: redis.store, prefix: 'api2' })
  for (let used = 1; used <= 40; used++) {
    await limiter.take(`user:${used}`, used)
  }
  await other.take('stranger', 100)
  await limiter.override('user:30', { burst: 30 }, { ttl: '1d' })
  await limiter.block('user:39', '1h')
  await limiter.block('never used', '1h')
  await redis.server.command('SET', 'api:default:gcra:{broken}', 'hello')
  const report = await json<TopReport>(top('api', '--most', '3'))
  expect(report).toMatchObject({ code: 0, by: 'share' })
  expect(report.keys).toMatchObject([
    { key: 'user:30', used: 30, limit: 30, share: 1, override: {} },
    { key: 'user:40', used: 40, limit: 100, share: 0.4 },
    { key: 'user:39', used: 39, limit: 100, share: 0.39, blockedForMs: expect.any(Number) },
  ])
  expect(report.sample).toMatchObject({
    ...{ read: 42, inUse: 40, blocked: 2, overridden: 1 },
    ...{ isComplete: true, scannedShare: 1 },
  })
  const byUsed = await json<TopReport>(top('api', '--most', '2', '--by', 'used'))
  expect(ranking(byUsed)).toEqual([
    ['user:40', 40],
    ['user:39', 39],
  ])
  const { stdout } = expectQuiet(await tollgate(top('api', '--most', '3')))
  expect(stdout).toMatch(/^Hottest keys of api at 127\.0\.0\.1:\d+, by used share\n/)
  expect(stdout).toMatch(/^ +100 % +30 +30 +default +gcra +user:30 {2}\(override\)$/m)
  expect(stdout).toMatch(/^ +39 % +39 +100 +default +gcra +user:39 {2}\(blocked for /m)
  expect(stdout).toMatch(
    /^Scanned in .*: all keys; 42 of this limiter, 40 in use, 2 blocked \(tollgate-cli blocked lists them\), 1 with an override\.$/m,
  )
})

test('windows have a limit only if the policy is given or registered', async () => {
  const policy = fixedWindow({ limit: 50, window: '1d' })
  await using limiter = new RateLimiter(policy, { store: redis.store, prefix: 'windows' })
  await limiter.take('low', 5)
  await limiter.take('high', 20)
  const registered = await json<TopReport>(top('windows'))
  expect(registered).toMatchObject({ by: 'share', keys: [{ key: 'high', share: 0.4, limit: 50 }, { key: 'low' }] })
  await redis.server.command('DEL', 'windows:~policies')
  const plain = await json<TopReport>(top('windows'))
  expect(plain.by).toBe('used')
  expect(plain.keys).toMatchObject([{ key: 'high', used: 20 }, { key: 'low' }])
  expect(plain.keys[0]).not.toHaveProperty('share')
  const full = await json<TopReport>(top('windows', '--policy', formatPolicyText(policy)))
  expect(full.by).toBe('share')
  expect(full.keys).toMatchObject([
    { key: 'high', share: 0.4, limit: 50 },
    { key: 'low', share: 0.1, limit: 50 },
  ])
})

test('with the policy the expired entries of logs are left out', async () => {
  await using server = await RedisServer.start({ hasOwnClock: true })
  await using store = new RedisStore(server.url)
  const policy = slidingLog({ limit: 20, window: '1h' })
  await using limiter = new RateLimiter(policy, { store, prefix: 'log' })
  await limiter.take('before', 9)
  await server.stepClock(2_400)
  await limiter.take('before', 1)
  await limiter.take('now', 5)
  await server.stepClock(4_800)
  const words = ['top', server.url, '--prefix', 'log']
  const found = await json<TopReport>(words)
  expect(ranking(found)).toEqual([
    ['now', 5],
    ['before', 1],
  ])
  await server.command('DEL', 'log:~policies')
  const { stdout } = expectQuiet(await tollgate(words))
  expect(stdout).toMatch(/10 .*before {2}\(upper bound\)/)
  const full = await json<TopReport>([...words, '--policy', formatPolicyText(policy)])
  expect(ranking(full)).toEqual([
    ['now', 5],
    ['before', 1],
  ])
})

test('control characters of a key do not reach the terminal', async () => {
  await using limiter = new RateLimiter(gcra({ limit: 10, period: '10d' }), { store: redis.store, prefix: 'hostile' })
  const keys = ['a\u001b]0;b\u0007\nc\u202e', `${'x'.repeat(500)}`]
  await limiter.takeMany(keys)
  const { stdout } = expectQuiet(await tollgate(top('hostile')))
  expect(stdout).toContain("$'a\\x1b]0;b\\x07\\x0ac\\xe2\\x80\\xae'\n")
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThan(130)
  const report = await json<TopReport>(top('hostile'))
  expect(report.keys.map(({ key }) => key).sort()).toEqual(keys.sort())
})

test('it exits with 1 if no key is in use', async () => {
  expect(await json<TopReport>(top('nobody'))).toMatchObject({
    code: 1,
    keys: [],
    sample: { read: 0, isComplete: true },
  })
})

describe('of many keys', () => {
  const KEYS = 20_000

  beforeAll(async () => {
    const limiter = new RateLimiter(gcra({ limit: 10, period: '10d' }), { store: redis.store, prefix: 'many' })
    for (let from = 0; from < KEYS; from += 5_000) {
      await limiter.takeMany(Array.from({ length: 5_000 }, (_, at) => `user:${from + at}`))
    }
    await limiter.take('user:777', 8)
    await limiter.close()
  })

  test('finds the hottest key by SCAN and plain reads alone', async () => {
    const commands = await commandsOf(redis.server, async () => {
      const report = await json<TopReport>(top('many', '--most', '2', '--for', '60s'))
      expect(report.keys[0]).toMatchObject({ key: 'user:777', used: 9 })
      expect(report.sample).toMatchObject({ read: KEYS, inUse: KEYS, isComplete: true })
    })
    expect(commands.names).toContain('scan')
    expectReading(commands)
  })

  test('reads at least one page, however short the time: reading nothing would look like no keys', async () => {
    const options = { prefix: 'many', timeout: 5_000, format: 'json' } as const
    const connection = await Connection.open(redis.server.url, options, process)
    const bounds = { prefix: 'many', most: 1, forMs: 0, sample: KEYS, count: 1_000 }
    const { read, isComplete } = await hottest(connection, undefined, bounds)
    expect(isComplete).toBe(false)
    expect(read).toBeGreaterThan(900)
    await connection.close()
  })

  test.each([
    ['--sample', '2000'],
    ['--for', '1ms'],
  ])('%s ends it early, and the scanned share is shown', async (option, bound) => {
    const report = await json<TopReport>(top('many', option, bound))
    const { read, isComplete, scannedShare } = report.sample
    expect(isComplete).toBe(false)
    expect(read).toBeGreaterThan(900)
    expect(read).toBeLessThan(KEYS / 2)
    // The other tests have few keys.
    expect(Math.abs((scannedShare as number) - read / KEYS)).toBeLessThan(0.1)
    const { stdout } = expectQuiet(await tollgate(top('many', option, bound)))
    expect(stdout).toMatch(/: about \d+ % of all keys \(a sample: increase --for or --sample for more\);/)
  })
})

test('--watch lists again until it is stopped', async () => {
  await using limiter = new RateLimiter(gcra({ limit: 100, period: '100d' }), { store: redis.store, prefix: 'watched' })
  await limiter.take('ann', 7)
  const child = start(top('watched', '--watch', '100ms', '--format', 'json'))
  const used: number[] = []
  let rest = ''
  for await (const chunk of child.stdout as Readable) {
    const lines = `${rest}${chunk}`.split('\n')
    rest = lines.pop() ?? ''
    used.push(...lines.map((line) => (JSON.parse(line) as TopReport).keys[0]?.used ?? 0))
    if (used.length === 1) {
      await limiter.take('ann', 5)
    }
    if (used.at(-1) === 12) {
      break
    }
  }
  expect(used[0]).toBe(7)
  expect(child.exitCode).toBeNull()
  child.kill('SIGINT')
  const [code, signal] = await once(child, 'exit')
  expect(code === 130 || signal === 'SIGINT').toBe(true)
})
