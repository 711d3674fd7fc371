/** Prefixes with colons, the command that lists prefixes, and commands without a policy. */

import type { KeyInspection } from '../../../ts/cli/redis/inspect.js'
import type { PrefixList } from '../../../ts/cli/redis/prefixes.js'
import { fixedWindow, gcra, RateLimiter, slidingWindow, tiers } from '../../../ts/index.js'
import { anything } from '../../failure.js'
import { openedRedis } from '../../redis/opened.js'
import { until } from '../../servers/until.js'
import { tollgate } from '../command.js'
import { commandsOf, expectQuiet, expectReading, json } from './server.js'

const redis = openedRedis()

function limiterOf(prefix: string, policies: object): RateLimiter {
  return anything(new RateLimiter(anything(policies), { store: redis.store, prefix }))
}

function words(command: string, prefix: string, key: string, ...more: string[]): string[] {
  return [command, redis.server.url, '--prefix', prefix, '--key', key, ...more]
}

/** Makes calls until the policies of a prefix are registered. */
async function register(limiter: RateLimiter, prefix: string): Promise<void> {
  await until('the policies are registered', async () => {
    await limiter.take('somebody', 1)
    return (await redis.server.command<string[]>('ZRANGE', `${prefix}:~policies`, '0', '-1')).length > 0
  })
}

test('a prefix has up to 64 characters, and colons between them', async () => {
  for (const prefix of ['app:eu:api', 'a', `a${':b'.repeat(31)}c`]) {
    await using own = limiterOf(prefix, gcra({ limit: 3, period: '1h' }))
    expect(await own.take('user:42', 2)).toMatchObject({ allowed: true, remaining: 1 })
    const shown = await json<KeyInspection>(words('inspect', prefix, 'user:42'))
    expect(shown).toMatchObject({ prefix, states: [{ policy: 'default', algorithm: 'gcra', used: 2 }] })
    const top = await json<{ keys: { key: string }[] }>(['top', redis.server.url, '--prefix', prefix])
    expect(top.keys.map(({ key }) => key)).toEqual(['user:42'])
  }
})

test('prefixes that begin alike do not share keys', async () => {
  await using short = limiterOf('tenant', gcra({ limit: 3, period: '1h' }))
  await using long = limiterOf('tenant:default', gcra({ limit: 3, period: '1h' }))
  await short.take('ann', 3)
  expect(await long.take('ann')).toMatchObject({ allowed: true, remaining: 2 })
  const top = await json<{ keys: { key: string; used: number }[] }>(['top', redis.server.url, '--prefix', 'tenant'])
  expect(top.keys).toMatchObject([{ key: 'ann', used: 3 }])
})

test.each([
  ['app:', 'leave out the colon at the end, which keys add themselves'],
  [':app', 'begin with a letter'],
  ['a'.repeat(65), 'begin with a letter, and use up to 64'],
  ['{app}', 'begin with a letter'],
])('the prefix %s is an error', (prefix, fix) => {
  expect(() => limiterOf(prefix, gcra({ limit: 3, period: '1h' }))).toThrow(fix)
})

test('prefixes are listed with their policies, and nothing is written', async () => {
  await using plain = limiterOf('listed:plain', gcra({ limit: 3, period: '1h' }))
  await using several = limiterOf('listed:several', {
    short: fixedWindow({ limit: 5, window: '1m' }),
    long: slidingWindow({ limit: 50, window: '1h', layout: 'hash' }),
  })
  await plain.takeMany(['a', 'b', 'c'])
  await register(several, 'listed:several')
  // As after 90 minutes.
  await redis.server.command('DEL', 'listed:plain:~policies')
  let list: PrefixList | undefined
  const commands = await commandsOf(redis.server, async () => {
    list = await json<PrefixList>(['prefixes', redis.server.url])
  })
  expectReading(commands)
  expect(list).toMatchObject({ code: 0, isComplete: true })
  const own = list?.prefixes.filter(({ prefix }) => prefix.startsWith('listed:'))
  expect(own).toEqual([
    {
      prefix: 'listed:plain',
      keys: 3,
      policies: [{ policy: 'default', algorithm: 'gcra', keys: 3 }],
      registered: [],
    },
    {
      prefix: 'listed:several',
      keys: 2,
      policies: expect.arrayContaining([
        { policy: 'short', algorithm: 'fixedWindow', keys: 1 },
        { policy: 'long', algorithm: 'slidingWindow', layout: 'hash', keys: 1 },
      ]),
      registered: [expect.stringMatching(/^long: slidingWindow .*; short: fixedWindow /)],
    },
  ])
  const { stdout } = expectQuiet(await tollgate(['prefixes', redis.server.url]))
  expect(stdout).toMatch(/^ *prefix +keys +policies$/m)
  expect(stdout).toMatch(/^ *listed:plain +3 +default \(gcra\)$/m)
  expect(stdout).toMatch(/^ *listed:several +2 +long: slidingWindow .* short: fixedWindow /m)
  expect(stdout).toMatch(/Scanned \d+ keys in .*: all keys\./)
})

test('a server without limiters has no prefixes', async () => {
  await redis.server.command('SELECT', '1')
  const { code, stdout } = await tollgate(['prefixes', `${redis.server.url}/1`])
  expect({ code, stdout }).toMatchObject({ code: 1, stdout: expect.stringContaining('no key is that of a limiter') })
})

test('without a policy, commands use the registered one', async () => {
  await using limiter = limiterOf('found', gcra({ limit: 20, period: '20d' }))
  await register(limiter, 'found')
  expectQuiet(await tollgate(words('block', 'found', 'ann', '--for', '10m')))
  expect((await limiter.take('ann')).status).toBe('blocked')
  expectQuiet(await tollgate(words('unblock', 'found', 'ann')))
  expectQuiet(await tollgate(words('override', 'found', 'ann', '--numbers', 'burst=30', '--for', '1h')))
  expect(await limiter.take('ann')).toMatchObject({ allowed: true, limit: 20, capacity: 30 })
  expectQuiet(await tollgate(words('reset', 'found', 'ann')))
  expectQuiet(await tollgate(words('clear-override', 'found', 'ann')))
  expect(await limiter.peek('ann')).toMatchObject({ capacity: 20, used: 0 })
})

test('keys with parts and tiers are found, too', async () => {
  const plans = tiers({
    free: gcra({ limit: 2, period: '1h', per: 'user' }),
    pro: gcra({ limit: 5, period: '1h', per: 'user' }),
  })
  await using limiter = limiterOf('found-tiers', {
    plan: plans,
    ip: fixedWindow({ limit: 9, window: '1d', per: 'ip' }),
  })
  const take = () => limiter.take(anything({ user: 'u', ip: 'i' }), anything({ tier: 'free' }))
  await until('the policies are registered', async () => {
    await take()
    return (await redis.server.command<string[]>('ZRANGE', 'found-tiers:~policies', '0', '-1')).length > 0
  })
  expectQuiet(await tollgate(words('block', 'found-tiers', 'user=u', '--for', '10m')))
  expect((await take()).status).toBe('blocked')
  const numbers = ['--numbers', 'plan limit=7', '--for', '1h']
  const { code, stderr } = await tollgate(words('override', 'found-tiers', 'user=u', ...numbers))
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('--tier, whose numbers') })
})

test('policies that differ, or that are not registered, must be given', async () => {
  await using limiter = limiterOf('unknown', gcra({ limit: 20, period: '20d' }))
  await limiter.take('ann')
  await redis.server.command('DEL', 'unknown:~policies')
  const none = await tollgate(words('block', 'unknown', 'ann', '--for', '1h'))
  expect(none).toMatchObject({ code: 2, stdout: '' })
  expect(none.stderr).toMatch(
    /^tollgate: block needs the limiter's --policy, .* no limiter with the prefix unknown has .*, and its keys belong to default \(gcra\)$/m,
  )
  const typo = await tollgate(words('block', 'unknwon', 'ann', '--for', '1h'))
  expect(typo).toMatchObject({ code: 2, stdout: '' })
  expect(typo.stderr).toMatch(/no key at .* has the prefix unknwon, these have keys: .*unknown/)
  const entries = ['default: gcra limit=1 period=1s', 'default: fixedWindow limit=1 window=1s']
  await redis.server.command('ZADD', 'unknown:~policies', '1', entries[0] as string, '2', entries[1] as string)
  const both = await tollgate(words('block', 'unknown', 'ann', '--for', '1h'))
  expect(both).toMatchObject({ code: 2, stdout: '' })
  expect(both.stderr).toMatch(/have used "default: gcra" and "default: fixedWindow"/)
  expect((await limiter.peek('ann')).status).toBe('allowed')
})

test('given policies must have the registered numbers: others could remove its counts', async () => {
  await using limiter = limiterOf('numbers', fixedWindow({ limit: 20, window: '1d' }))
  await limiter.take('ann', 3)
  await register(limiter, 'numbers')
  const block = (window: string, ...more: string[]) => {
    const policy = `fixedWindow limit=20 window=${window}`
    return tollgate(words('block', 'numbers', 'ann', '--for', '1s', '--policy', policy, ...more))
  }
  const other = await block('1s')
  expect(other).toMatchObject({ code: 2, stdout: '' })
  expect(other.stderr).toMatch(
    /^tollgate: nothing was done: .* use "default: fixedWindow .*window=1d", not "default: fixedWindow .*window=1s"; omit --policy/,
  )
  expect(await limiter.peek('ann')).toMatchObject({ status: 'allowed', used: 3 })
  expectQuiet(await block('24h'))
  expect(await limiter.peek('ann')).toMatchObject({ status: 'blocked', used: 3 })
  expectQuiet(await block('1s', '--force'))
})
