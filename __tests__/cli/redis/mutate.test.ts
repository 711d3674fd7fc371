/**
 * `reset`, `block`, `unblock`, `override` and `clear-override` act like a limiter's methods, and
 * change nothing unconfirmed.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { KeyInspection } from '../../../ts/cli/redis/inspect.js'
import { run } from '../../../ts/cli/run.js'
import { fixedWindow, gcra, RateLimiter } from '../../../ts/index.js'
import { openedRedis } from '../../redis/opened.js'
import { tollgate } from '../command.js'
import { commandsOf, expectQuiet, expectReading, json } from './server.js'

const redis = openedRedis()
const folder = mkdtempSync(join(tmpdir(), 'tollgate-act-'))
const POLICY = 'gcra limit=20 period=20d'

/** The commands change keys of limiters that have been used. */
beforeAll(async () => {
  await new RateLimiter(gcra({ limit: 20, period: '20d' }), { store: redis.store, prefix: 'act' }).take('somebody')
})

afterAll(() => rmSync(folder, { recursive: true }))

/** The arguments of a command on the key of a test. */
function words(command: string, ...more: string[]): string[] {
  const { currentTestName = '' } = expect.getState()
  return [command, redis.server.url, '--prefix', 'act', '--key', currentTestName, ...more]
}

/** A limiter, and the key of a test. */
function limited() {
  const limiter = new RateLimiter(gcra({ limit: 20, period: '20d' }), { store: redis.store, prefix: 'act' })
  return { limiter, key: expect.getState().currentTestName as string }
}

test('reset makes a key fresh, and keeps its override', async () => {
  const { limiter, key } = limited()
  await limiter.take(key, 5)
  await limiter.block(key, '1d')
  await limiter.override(key, { limit: 40 }, { ttl: '1d' })
  const { code, stdout } = expectQuiet(await tollgate(words('reset', '--policy', POLICY)))
  expect(code).toBe(0)
  expect(stdout.startsWith(`${key} has been reset\n\n`)).toBe(true)
  expect(stdout).toContain('override: gcra 2 per day, burst 40')
  expect(stdout).not.toContain('blocked')
  expect(await limiter.peek(key)).toMatchObject({ status: 'allowed', remaining: 40 })
  await limiter.clearOverride(key)
})

test('block refuses a key for a time, and unblock ends the block', async () => {
  const { limiter, key } = limited()
  const blocked = expectQuiet(await tollgate(words('block', '--for', '10m', '--policy', POLICY)))
  expect(blocked.stdout).toMatch(/ has been blocked for 10 min\n\n/)
  expect(blocked.stdout).toMatch(/^ {2}blocked for (10 min|9 min \d+ s), until /m)
  expect(blocked.stdout).toMatch(/a call now would be blocked, again in (10 min|9 min \d+ s);/)
  const decision = await limiter.take(key)
  expect(decision).toMatchObject({ allowed: false, status: 'blocked' })
  expect(Math.abs((decision.retryAfterMs as number) - 600_000)).toBeLessThan(60_000)
  const unblocked = expectQuiet(await tollgate(words('unblock', '--policy', POLICY)))
  expect(unblocked.stdout).toContain(' is no longer blocked\n\n')
  expect(await limiter.take(key)).toMatchObject({ allowed: true, remaining: 19 })
})

test('override sets numbers for a key, and clear-override removes them', async () => {
  const { limiter, key } = limited()
  const numbers = ['--numbers', 'limit=40 burst=50', '--for', '30d']
  const own = await json<KeyInspection & { isDone: boolean }>(words('override', '--policy', POLICY, ...numbers))
  expect(own).toMatchObject({
    code: 0,
    command: 'override',
    isDone: true,
    decision: { limit: 40, capacity: 50, remaining: 50 },
  })
  expect(own.states).toMatchObject([{ override: { numbers: { limit: 1, periodMs: 43_200_000, burst: 50 } } }])
  expect(await limiter.take(key)).toMatchObject({ limit: 40, capacity: 50, remaining: 49 })
  const cleared = expectQuiet(await tollgate(words('clear-override', '--policy', POLICY)))
  expect(cleared.stdout).toContain(' no longer has an override\n\n')
  expect((await limiter.peek(key)).limit).toBe(20)
})

test('each policy of a set can have its own override', async () => {
  const policies = { short: gcra({ limit: 10, period: '10d' }), long: fixedWindow({ limit: 50, window: '1d' }) }
  const file = join(folder, 'several.json')
  writeFileSync(file, JSON.stringify(policies))
  await using limiter = new RateLimiter(policies, { store: redis.store, prefix: 'several' })
  await limiter.take('somebody')
  const { key } = limited()
  const own = ['--numbers', 'short limit=20 burst=30', '--numbers', 'long limit=60', '--for', '1d']
  const target = [redis.server.url, '--prefix', 'several', '--key', key]
  expectQuiet(await tollgate(['override', ...target, '--policies', file, ...own]))
  expect((await limiter.peek(key)).policies).toMatchObject({ short: { capacity: 30 }, long: { capacity: 60 } })
})

test.each([
  ['reset', 'would be reset'],
  ['block --for 1d', 'would be blocked for 1 d'],
  ['unblock', 'would no longer be blocked'],
  ['override --numbers limit=5 --for 1d', 'would have an override for 1 d'],
  ['clear-override', 'would no longer have an override'],
])('%s --dry-run prints the change, and only reads', async (line, would) => {
  const { limiter, key } = limited()
  await limiter.take(key, 3)
  await limiter.block(key, '2d')
  await limiter.override(key, { limit: 40 }, { ttl: '2d' })
  const [command = '', ...more] = line.split(' ')
  const commands = await commandsOf(redis.server, async () => {
    const { code, stdout } = expectQuiet(await tollgate(words(command, ...more, '--dry-run', '--policy', POLICY)))
    expect({ code, first: stdout.split('\n')[0] }).toEqual({ code: 0, first: `${key} ${would}` })
  })
  expectReading(commands, true)
  expect(await limiter.peek(key)).toMatchObject({ status: 'blocked' })
})

test.each([
  [`override --for 1d --numbers capacity=5 --policy=${POLICY}`, /^tollgate: --numbers: .*capacity/],
  [`override --for 1d --numbers limit=0 --policy=${POLICY}`, /^tollgate: --numbers: .*limit must be/],
  [`block --for soon --policy=${POLICY}`, /^tollgate: option '--for <duration>' argument 'soon' is invalid/],
  [`block --policy=${POLICY}`, /^tollgate: required option '--for <duration>' not specified/],
  [`reset --policy=gcra`, /^tollgate: --policy: gcra: limit must be/],
])('%s is a usage error, before any confirmation', async (line, complaint) => {
  const [command = '', ...more] = line
    .split(/ (?=--)/)
    .flatMap((word) => word.replace(/^(--\w+)[= ]/, '$1\n').split('\n'))
  const { code, stdout, stderr } = await tollgate([
    command,
    'redis://127.0.0.1:1',
    '--prefix',
    'act',
    '--key',
    'k',
    ...more,
  ])
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(complaint)
})

test('what is given twice, where the first would be lost, is a usage error, and changes nothing', async () => {
  const policies = {
    address: fixedWindow({ limit: 50, window: '1d', per: 'ip' }),
    all: fixedWindow({ limit: 50, window: '1d', per: 'global' }),
  }
  await using limiter = new RateLimiter(policies, { store: redis.store, prefix: 'twice' })
  await limiter.take({ ip: 'somebody' })
  const words = (command: string, ...more: string[]) => [command, redis.server.url, '--prefix', 'twice', ...more]
  const file = join(folder, 'twice.json')
  writeFileSync(file, JSON.stringify(policies))
  const keys = ['--key', 'ip=192.0.2.1', '--key', 'ip=192.0.2.2']
  const numbers = ['--numbers', 'address limit=5', '--numbers', 'address limit=6']
  const once = 'a call has one key for each per, so run the command once for each key'
  for (const [line, complaint] of [
    [words('block', ...keys, '--for', '1h'), `--key ip=… is given twice: ${once}`],
    [words('block', ...keys, '--for', '1h', '--policies', file), `--key ip=… is given twice: ${once}`],
    [words('unblock', '--key', 'global', '--key', 'global'), `--key global is given twice: ${once}`],
    [['inspect', redis.server.url, '--prefix', 'unknown', ...keys], `--key ip=… is given twice: ${once}`],
    [
      words('override', '--key', 'ip=192.0.2.1', ...numbers, '--for', '1h'),
      "--numbers 'address …' is given twice: write all numbers of a policy in one text",
    ],
  ] as const) {
    expect(await tollgate(line)).toMatchObject({ code: 2, stdout: '', stderr: `tollgate: ${complaint}\n` })
  }
  expect(await limiter.peek({ ip: '192.0.2.2' })).toMatchObject({ status: 'allowed', limit: 50 })
})

/** Runs a command on a terminal and answers its question; `undefined` closes the input. */
async function answered(words: readonly string[], answer: string | undefined) {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
  const code = run(words, { stdin: Object.assign(stdin, { isTTY: true }), stdout, stderr, env: {} })
  stdin.end(answer)
  return { code: await code, stdout: `${stdout.read() ?? ''}`, stderr: `${stderr.read() ?? ''}` }
}

test('on a terminal the command asks for confirmation', async () => {
  const policy = fixedWindow({ limit: 50, window: '1d', per: 'global' })
  await using limiter = new RateLimiter(policy, { store: redis.store, prefix: 'asked' })
  await limiter.take({})
  const words = ['block', redis.server.url, '--prefix', 'asked', '--key', 'global', '--for', '1h', '--policy']
  words.push('fixedWindow limit=50 window=1d per=global')
  for (const answer of ['n\n', '\n', undefined]) {
    expect(await answered(words, answer)).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^block global affects .*Continue\? \[y\/N\] .*tollgate: nothing was done\n$/s),
    })
    expect(await limiter.peek({})).toMatchObject({ status: 'allowed' })
  }
  expect(await answered(words, 'y\n')).toMatchObject({ code: 0 })
  expect(await limiter.peek({})).toMatchObject({ status: 'blocked' })
})

test('a change that affects all callers needs an explicit option', async () => {
  const policies = {
    each: gcra({ limit: 10, period: '10d', per: 'ip' }),
    all: fixedWindow({ limit: 50, window: '1d', per: 'global' }),
  }
  const file = join(folder, 'per.json')
  writeFileSync(file, JSON.stringify(policies))
  await using limiter = new RateLimiter(policies, { store: redis.store, prefix: 'wide' })
  await limiter.take({ ip: '192.0.2.9' })
  const target = [redis.server.url, '--prefix', 'wide', '--policies', file, '--key', 'global']
  const line = ['block', ...target, '--for', '1h']
  const commands = await commandsOf(redis.server, async () => {
    expect(await tollgate(line, { stdin: 'y\n' })).toMatchObject({
      code: 2,
      stderr: 'tollgate: block global affects every call of wide: pass --yes\n',
    })
    const { stdout } = expectQuiet(await tollgate([...line, '--dry-run']))
    expect(stdout).toMatch(/^global \(all calls\) would be blocked for 1 h\n/)
  })
  expectReading(commands)
  expect(await limiter.take({ ip: '192.0.2.1' })).toMatchObject({ allowed: true })
  const { stdout } = expectQuiet(await tollgate([...line, '--yes']))
  expect(stdout).toMatch(/^global \(all calls\) has been blocked for 1 h\n/)
  expect(await limiter.take({ ip: '192.0.2.1' })).toMatchObject({ status: 'blocked', policy: 'all' })
  // Commands that admit more calls need no such option, nor do those on one caller.
  expectQuiet(await tollgate(['unblock', ...target]))
  const [one, other] = [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }]
  expectQuiet(await tollgate(['block', ...target.slice(0, -1), 'ip=192.0.2.1', '--for', '1h']))
  expect(await limiter.take(one)).toMatchObject({ status: 'blocked', policy: 'each' })
  expect(await limiter.take(other)).toMatchObject({ allowed: true })
})

test('a length with a unit causes no warning, and one without a unit causes one', async () => {
  expect(expectQuiet(await tollgate(words('block', '--for', '500ms', '--policy', POLICY))).code).toBe(0)
  const { key, limiter } = limited()
  await limiter.unblock(key)
  const override = (period: string) =>
    tollgate(words('override', '--policy', POLICY, '--numbers', `period=${period}`, '--for', '500ms'))
  expect(expectQuiet(await override('60ms')).code).toBe(0)
  const { stderr } = await override('60')
  expect(stderr.match(/TollgateWarning: .* is/g)).toEqual(['TollgateWarning: --numbers: period is'])
})
