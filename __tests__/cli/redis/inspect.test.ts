/**
 * `tollgate-cli inspect` against a real Redis: it shows the same state as a limiter, for every
 * algorithm, and writes nothing.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatPolicyText } from '../../../ts/cli/policy-text.js'
import type { KeyInspection } from '../../../ts/cli/redis/inspect.js'
import {
  calendarWindow,
  concurrency,
  type Decision,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  RateLimiter,
  RedisStore,
  type Reservation,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../../ts/index.js'
import { openedRedis } from '../../redis/opened.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { tollgate } from '../command.js'
import { commandsOf, expectQuiet, expectReading, json } from './server.js'

const redis = openedRedis()
const folder = mkdtempSync(join(tmpdir(), 'tollgate-inspect-'))

afterAll(() => rmSync(folder, { recursive: true }))

/** The rates are slow, so that nothing drains while a command starts. */
const POLICIES = {
  gcra: gcra({ limit: 20, period: '20d' }),
  burst: gcra({ limit: 7, period: '7d', burst: 20 }),
  bucket: tokenBucket({ capacity: 20, refill: { tokens: 1, every: '1d' } }),
  low: tokenBucket({ capacity: 20, refill: { tokens: 1, every: '1d' }, initial: 15 }),
  interval: tokenBucket({ capacity: 20, refill: { tokens: 2, every: '1d' }, refillMode: 'interval' }),
  leaky: leakyBucket({ capacity: 20, leak: { units: 1, every: '1d' } }),
  window: fixedWindow({ limit: 20, window: '1d' }),
  large: fixedWindow({ limit: 1_000_000, window: '1d' }),
  calendar: calendarWindow({ limit: 20, every: 'month', timeZone: 'UTC' }),
  counter: slidingCounter({ limit: 20, window: '30d' }),
  list: slidingWindow({ limit: 20, window: '1d' }),
  hash: slidingWindow({ limit: 20, window: '1d', layout: 'hash' }),
  log: slidingLog({ limit: 20, window: '1d' }),
  logs: slidingLog({ limits: { short: { limit: 20, window: '1h' }, long: { limit: 50, window: '1d' } } }),
} satisfies Record<string, Policy>

function at(...words: string[]): string[] {
  return [...words, redis.server.url]
}

/** The used units that a call of 0 units reports, under the limit with the longest window. */
function usedBy({ policies }: Decision): number {
  return Object.values(policies).at(-1)?.used as number
}

test('a rate that an override will change says so until the next call', async () => {
  await using limiter = new RateLimiter(gcra({ limit: 5, period: '1m' }), { store: redis.store, prefix: 'drains' })
  await limiter.take('guest', 3)
  const shown = async () => expectQuiet(await tollgate(at('inspect', '--prefix', 'drains', '--key', 'guest'))).stdout
  expect(await shown()).toMatch(/^ {2}drains: 5 per minute$/m)
  await limiter.override('guest', { limit: 6, burst: 8 }, { ttl: '30d' })
  expect(await shown()).toMatch(/^ {2}override: gcra 6 per minute, burst 8; /m)
  expect(await shown()).toMatch(/^ {2}drains: 5 per minute until the next call, which applies the override$/m)
  await limiter.take('guest')
  expect(await shown()).toMatch(/^ {2}drains: 6 per minute$/m)
})

describe.each(Object.entries<Policy>(POLICIES))('%s', (name, policy) => {
  const words = () => at('inspect', '--prefix', name, '--key', 'user:42')
  const limiter = () => new RateLimiter(policy, { store: redis.store, prefix: name })

  test('is shown as a limiter reports it, with and without its policy', async () => {
    await using own = limiter()
    for (const cost of [3, 1, 5]) {
      expect(await own.take('user:42', cost)).toMatchObject({ allowed: true })
    }
    const peeked = await own.peek('user:42')
    const plain = await json<KeyInspection>(words())
    expect(plain).toMatchObject({ code: 0, prefix: name, key: 'user:42' })
    expect(plain.states).toHaveLength(1)
    const [state] = plain.states
    expect(state).toMatchObject({ policy: 'default', algorithm: policy.algorithm, isReadable: true })
    expect(state?.used).toBe(usedBy(peeked))
    if (state?.limit !== undefined) {
      expect(state.limit).toBe(peeked.capacity)
    }
    for (const ms of [state?.resetInMs, state?.windowEndsInMs]) {
      expect(Math.abs((ms ?? peeked.resetAfterMs) - peeked.resetAfterMs)).toBeLessThan(60_000)
    }
    // The first call has registered the policy.
    expect(plain).toMatchObject({ policiesFrom: 'registry', decision: { remaining: peeked.remaining } })
    const full = await json<KeyInspection>([...words(), '--policy', formatPolicyText(policy)])
    expect(full).toMatchObject({ policiesFrom: 'options', states: [{ used: state?.used }] })
    const { allowed, remaining, limit, policies } = full.decision as Decision
    expect({ allowed, remaining, limit }).toEqual({ allowed: true, remaining: peeked.remaining, limit: peeked.limit })
    expect(Object.keys(policies)).toEqual(Object.keys(peeked.policies))
  })

  test('shows a block and an override in words', async () => {
    await using own = limiter()
    await own.take('guest')
    await own.block('guest', '5m')
    const numbers = NUMBERS[name] ?? NUMBERS[policy.algorithm] ?? { limit: 7 }
    await own.override('guest', numbers as never, { ttl: '30d' })
    const { stdout, code } = expectQuiet(await tollgate(at('inspect', '--prefix', name, '--key', 'guest')))
    expect(code).toBe(0)
    expect(stdout).toMatch(/^ {2}blocked for (5 min|4 min \d+ s), until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC$/m)
    expect(stdout).toMatch(/^ {2}override: \w+ .*7.*; for (30 d|29 d 23 h \d+ min \d+ s), until /m)
    expect(stdout).toMatch(/^ {2}used: (at most )?[16]\b/m)
    await own.reset('guest')
    const after = await json<KeyInspection>(at('inspect', '--prefix', name, '--key', 'guest'))
    expect(after.states[0]).toMatchObject({ used: expect.any(Number), override: { numbers: expect.anything() } })
    expect(after.states[0]).not.toHaveProperty('blockedForMs')
    await own.clearOverride('guest')
  })

  test('shows strikes, a ban, and one that has ended', async () => {
    const ban = { after: 2, period: '1h', for: ['1h', '2h'] } as const
    await using own = new RateLimiter(policy, { store: redis.store, prefix: `bans-${name}`, ban })
    const words = at('inspect', '--prefix', `bans-${name}`, '--key', 'guest')
    const shown = async () => expectQuiet(await tollgate(words)).stdout
    const { capacity } = await own.take('guest')
    await own.takeUpTo('guest', capacity)
    expect((await own.take('guest')).status).toBe('refused')
    expect(await shown()).toMatch(/^ {2}1 strike, forgotten in (1 h|59 min \d+ s)$/m)
    expect((await own.take('guest')).status).toBe('blocked')
    expect(await shown()).toMatch(/^ {2}banned \(ban 1\) for (1 h|59 min \d+ s), until /m)
    await own.unblock('guest')
    expect(await shown()).toMatch(
      /^ {2}the last ban was ban 1; forgotten in (1 d|23 h \d+ min \d+ s|1 d 1 h|1 d \d+ min \d+ s)$/m,
    )
    await own.take('guest')
    const { states } = await json<KeyInspection>(words)
    expect(states[0]).toMatchObject({ strikes: { count: 1 }, ban: { step: 1, isInForce: false } })
  })

  test('shows owed units', async () => {
    await using own = new RateLimiter({ ...policy, maxOwed: 50 }, { store: redis.store, prefix: `owed-${name}` })
    const { capacity, remaining } = await own.peek('guest')
    expect(await own.penalize('guest', remaining + 7)).toBe(remaining + 7)
    const words = at('inspect', '--prefix', `owed-${name}`, '--key', 'guest')
    const { stdout } = expectQuiet(await tollgate(words))
    expect(stdout).toMatch(/^ {2}owes 7 units, paid in \d+ .* at the latest$/m)
    const { states, decision } = await json<KeyInspection>(words)
    expect(states[0]).toMatchObject({ owed: { units: 7, paidInMs: expect.any(Number) } })
    expect(decision).toMatchObject({ allowed: false, status: 'refused', remaining: 0, capacity })
  })

  // promise: inspect-changes-nothing
  test('inspecting writes nothing, not even a TTL', async () => {
    await using own = limiter()
    await own.take('user:42')
    const commands = await commandsOf(redis.server, async () => {
      expectQuiet(await tollgate(words()))
      expectQuiet(await tollgate([...words(), '--policy', formatPolicyText(policy)]))
      expectQuiet(await tollgate(at('top', '--prefix', name)))
      expectQuiet(await tollgate(at('top', '--prefix', name, '--policy', formatPolicyText(policy))))
    })
    expectReading(commands, true)
  })
})

/** Overrides of a key, by the policy's name or algorithm. */
const NUMBERS: Readonly<Record<string, object>> = {
  burst: { burst: 7 },
  low: { capacity: 7, initial: 7 },
  tokenBucket: { capacity: 7 },
  leakyBucket: { capacity: 7 },
  logs: { limits: { short: { limit: 7 } } },
}

test('the policies of a set are found by the registry, by a scan, by names and by file', async () => {
  const policies = { short: gcra({ limit: 10, period: '10d' }), long: fixedWindow({ limit: 50, window: '1d' }) }
  await using limiter = new RateLimiter(policies, { store: redis.store, prefix: 'several' })
  const key = 'user:42*[x]?{y}%\\'
  await limiter.take(key, 4)
  const words = at('inspect', '--prefix', 'several', '--key', key)
  const both = [
    ['long', 4],
    ['short', 4],
  ]
  const found = await json<KeyInspection>(words)
  expect(found.states.map(({ policy, used }) => [policy, used])).toEqual(both)
  expect(found.scan).toBeUndefined()
  await redis.server.command('DEL', 'several:~policies')
  const scanned = await json<KeyInspection>(words)
  expect(scanned.states.map(({ policy, used }) => [policy, used])).toEqual(both)
  expect(scanned.scan).toEqual({ isComplete: true })
  const named = await json<KeyInspection>([...words, '--name', 'short'])
  expect(named.states.map(({ policy }) => policy)).toEqual(['short'])
  expect(named.scan).toBeUndefined()
  const none = await json<KeyInspection>([...words, '--no-scan'])
  expect(none).toMatchObject({ code: 1, states: [] })
  const file = join(folder, 'several.json')
  writeFileSync(file, JSON.stringify({ short: 'gcra limit=10 period=10d', long: policies.long }))
  const full = await json<KeyInspection>([...words, '--policies', file])
  expect(full.decision).toMatchObject({ policies: { short: { remaining: 6 }, long: { remaining: 46 } } })
})

test('policies with a per are inspected by the parts of their key', async () => {
  const policies = {
    each: gcra({ limit: 10, period: '10d', per: 'ip' }),
    all: fixedWindow({ limit: 50, window: '1d', per: 'global' }),
  }
  const file = join(folder, 'per.json')
  writeFileSync(file, JSON.stringify(policies))
  await using limiter = new RateLimiter(policies, { store: redis.store, prefix: 'per' })
  await limiter.take({ ip: '192.0.2.1' }, 4)
  await limiter.take({ ip: '192.0.2.2' }, 1)
  const words = [...at('inspect'), '--prefix', 'per', '--policies', file, '--key']
  const { stdout } = expectQuiet(await tollgate([...words, 'ip=192.0.2.1']))
  expect(stdout).toMatch(/^ip 192\.0\.2\.1 under per at /)
  expect(stdout).toMatch(/^all: fixedWindow\n {2}used: 5\n/m)
  expect(stdout).toMatch(/^each: gcra\n {2}used: 4 of 10 \(40 %\)\n/m)
  expect(stdout).toContain('allowed; each 6 of 10 left, all 45 of 50 left\n')
  for (const key of ['ip', 'user=ann', 'global=all']) {
    const { code, stderr } = await tollgate([...words, key])
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: "tollgate: --key must be one of ip=…, global: the policies' per\n",
    })
  }
})

test('a text that may be the key of several dimensions, or of a policy named twice, is read once', async () => {
  await using limiter = new RateLimiter(gcra({ limit: 10, period: '10d' }), { store: redis.store, prefix: 'once' })
  await limiter.take('same')
  await redis.server.command('DEL', 'once:~policies')
  const words = at('inspect', '--prefix', 'once', '--name', 'default', '--name', 'default')
  const found = await json<KeyInspection>([...words, '--key', 'ip=same', '--key', 'user=same'])
  expect(found.states).toMatchObject([{ key: 'same', used: 1 }])
})

test('policies with meters are inspected, each by its own units', async () => {
  const policies = {
    calls: gcra({ limit: 10, period: '10d' }),
    tokens: fixedWindow({ limit: 500, window: '1d', meter: 'tokens', defaultCost: 5 }),
  }
  await using limiter = new RateLimiter(policies, { store: redis.store, prefix: 'meters' })
  await limiter.take('ann', { cost: { tokens: 120 } })
  const words = at('inspect', '--prefix', 'meters', '--key', 'ann')
  const found = await json<KeyInspection>(words)
  expect(found.states.map(({ policy, used }) => [policy, used])).toEqual([
    ['calls', 1],
    ['tokens', 120],
  ])
  expect(found.decision).toMatchObject({ policies: { calls: { remaining: 9 }, tokens: { remaining: 380 } } })
})

test('an unused key is reported, with exit code 1', async () => {
  const { code, stdout } = expectQuiet(await tollgate(at('inspect', '--prefix', 'gcra', '--key', 'nobody')))
  expect(code).toBe(1)
  expect(stdout).toContain('The key has no state: it is fresh.')
})

test('control characters of a key do not reach the terminal', async () => {
  await using limiter = new RateLimiter(POLICIES.gcra, { store: redis.store, prefix: 'hostile' })
  const key = 'a\u001b[31mred\u202e{b}%7D\u009b\n'
  await limiter.take(key, 3)
  const words = at('inspect', '--prefix', 'hostile', '--key', key)
  const { stdout } = expectQuiet(await tollgate(words))
  expect(stdout).toMatch(/^a\\x1b\[31mred\\u202e\{b\}%7D\\x9b\\x0a under hostile at /)
  expect(stdout).toContain('used: 3 of 20')
  expect(await json<KeyInspection>(words)).toMatchObject({ key, states: [{ key, used: 3 }] })
})

test('a foreign value is reported, and is not a failure', async () => {
  await redis.server.command('SET', 'stranger:default:gcra:{user:42}', 'hello')
  await redis.server.command('LPUSH', 'stranger:default:fw:{user:42}', 'hello')
  const { code, stdout } = expectQuiet(await tollgate(at('inspect', '--prefix', 'stranger', '--key', 'user:42')))
  expect(code).toBe(0)
  expect(stdout.match(/it holds a value that no limiter has written/g)).toHaveLength(2)
})

test('open reservations, and calls that wait for their slots, are shown', async () => {
  await using limiter = new RateLimiter(gcra({ limit: 10, period: '5h', burst: 5 }), {
    store: redis.store,
    prefix: 'waits',
  })
  const reservation = await limiter.reserve('user:42', 4, { ttl: '5m' })
  const words = at('inspect', '--prefix', 'waits', '--key', 'user:42')
  const { stdout } = expectQuiet(await tollgate(words))
  expect(stdout).toMatch(/^1 reservation is open, for (5 min|4 min \d+ s) at most$/m)
  await (reservation as Extract<Reservation, { readonly allowed: true }>).cancel()
  expect(await json<KeyInspection>(words)).not.toHaveProperty('reservations')
  await limiter.take('user:43', 5)
  const left = new AbortController()
  const waiting = limiter.wait('user:43', { signal: left.signal, maxWait: 3_600_000 })
  const gone = expect(waiting).rejects.toThrow()
  await limiter.peek('user:43')
  const { states } = await json<KeyInspection>(at('inspect', '--prefix', 'waits', '--key', 'user:43'))
  expect(states).toMatchObject([{ used: 6, limit: 5 }])
  expect(Math.abs((states[0]?.bookedForMs ?? 0) - 1_800_000)).toBeLessThan(60_000)
  left.abort()
  await gone
})

describe('remembered ids are shown apart from reservations', () => {
  const policy = fixedWindow({ limit: 10_000, window: '1d' })
  const own = (prefix: string) => new RateLimiter(policy, { store: redis.store, prefix })
  const words = (prefix: string, key: string) => at('inspect', '--prefix', prefix, '--key', key)

  test('in text', async () => {
    await using limiter = own('ids')
    await limiter.take('one', { id: 'job:1', idTtl: '1h' })
    const { stdout } = expectQuiet(await tollgate(words('ids', 'one')))
    expect(stdout).toMatch(/^1 id of a call is remembered, for (1 h|59 min \d+ s) at most$/m)
    expect(stdout).not.toContain('reservation')
    await limiter.take('one', { id: 'job:2', idTtl: '1h' })
    expect((await tollgate(words('ids', 'one'))).stdout).toMatch(/^2 ids of calls are remembered, for /m)
  })

  test('of a reservation, before and after it is settled', async () => {
    await using limiter = own('ids')
    const reservation = await limiter.reserve('held', 5, { ttl: '5m', id: 'job', idTtl: '1h' })
    const open = await json<KeyInspection>(words('ids', 'held'))
    expect(open).toMatchObject({ reservations: { open: 1 }, ids: { remembered: 1 } })
    const { reservations, ids } = open as Required<Pick<KeyInspection, 'reservations' | 'ids'>>
    for (const [ms, expected] of [
      [reservations.endInMs, 300_000],
      [ids.endInMs, 3_600_000],
    ] as const) {
      expect(Math.abs(ms - expected)).toBeLessThan(60_000)
    }
    await (reservation as Extract<Reservation, { readonly allowed: true }>).commit(3)
    const settled = await json<KeyInspection>(words('ids', 'held'))
    expect(settled).toMatchObject({ ids: { remembered: 1 } })
    expect(settled).not.toHaveProperty('reservations')
  })

  test('if they are more than one command reads, and without the ended ones', async () => {
    await using limiter = own('ids')
    await limiter.take('many', { id: 'ended', idTtl: '1ms' })
    await limiter.reserve('many', 1, { ttl: '1h' })
    await Promise.all(Array.from({ length: 1_200 }, (_, number) => limiter.take('many', { id: `job:${number}` })))
    await limiter.reserve('many', 1, { ttl: '1d' })
    const found = await json<KeyInspection>(words('ids', 'many'))
    expect(found).toMatchObject({ reservations: { open: 2 }, ids: { remembered: 1_200 } })
  })

  test('if they are all that is left, and reset forgets them', async () => {
    const short = fixedWindow({ limit: 5, window: '10ms' })
    await using limiter = new RateLimiter(short, { store: redis.store, prefix: 'only-ids', tag: 'tenant' })
    await limiter.take('one', { id: 'job', idTtl: '1h' })
    await limiter.take('one more', { id: 'job', idTtl: '1h' })
    await until('the window has ended', async () => (await limiter.peek('one')).used === 0)
    // The tag is unknown, so that the key is found by a scan.
    const found = await json<KeyInspection>(words('only-ids', 'one'))
    expect(found).toMatchObject({ code: 0, states: [], ids: { remembered: 1 }, scan: { isComplete: true } })
    const reset = (...more: string[]) =>
      json(at('reset', '--prefix', 'only-ids', '--key', 'one', '--tag', 'tenant', ...more))
    expect(await reset('--dry-run')).toMatchObject({ code: 0, ids: { remembered: 1 } })
    expect(await reset()).toMatchObject({ code: 0, isDone: true })
    expect(await reset()).toMatchObject({ code: 1, isDone: false })
  })
})

test('permits are shown, with and without their policy', async () => {
  const limiter = new RateLimiter(concurrency({ limit: 4 }), { store: redis.store, prefix: 'permits' })
  await limiter.acquire('a')
  await limiter.acquire('a', { cost: 2 })
  const words = at('inspect', '--prefix', 'permits', '--key', 'a')
  const { stdout } = await tollgate(words)
  expect(stdout).toContain('default: concurrency\n  used: 3\n')
  expect(stdout).toContain('  2 permits are held; holders renew their permits\n')
  const given = await tollgate([...words, '--policy', 'concurrency limit=4'])
  expect(given.stdout).toContain('By the given policy: a call now would be allowed, the last one; 1 of 4 left')
  await limiter.close()
  expect(await tollgate(words)).toMatchObject({ code: 1 })
})

test('a note marks states that other policy numbers wrote, or that the given policy does not use', async () => {
  await using limiter = new RateLimiter(gcra({ limit: 10, period: '10d' }), { store: redis.store, prefix: 'notes' })
  await limiter.take('user:42')
  const words = [...at('inspect'), '--prefix', 'notes', '--key', 'user:42', '--policy']
  const other = await tollgate([...words, 'gcra limit=20 period=10d'])
  expect(other.stdout).toContain('Note: its state under default was written with other numbers than those given\n')
  const wrong = await tollgate([...words, 'fixedWindow limit=20 window=1d'])
  expect(wrong.stdout).toContain('Note: it also has state under default (gcra), which is not the given policy\n')
  const same = await tollgate([...words, 'gcra limit=10 period=10d'])
  expect(same.stdout).not.toContain('Note')
})

test('expired entries of a log count only without its policy, and a note says so', async () => {
  await using server = await RedisServer.start({ hasOwnClock: true })
  await using store = new RedisStore(server.url)
  const policy = slidingLog({ limit: 20, window: '1h' })
  await using limiter = new RateLimiter(policy, { store, prefix: 'log' })
  await limiter.take('user:42', 3)
  await server.stepClock(2_400)
  await limiter.take('user:42', 2)
  await server.stepClock(4_800)
  const words = ['inspect', server.url, '--prefix', 'log', '--key', 'user:42']
  const plain = await tollgate(words)
  expect(plain.stdout).toMatch(
    /^ {2}used: at most 5\n {2}2 entries, the oldest 1 h 2\d min( \d+ s)? old, the newest 4\d min( \d+ s)?$/m,
  )
  const full = await json<KeyInspection>([...words, '--policy', formatPolicyText(policy)])
  expect(full.decision).toMatchObject({ allowed: true, remaining: 18 })
})

test('says that processes may hold units in leases', async () => {
  const options = { store: redis.store, prefix: 'leased', local: { lease: '1m' } } as const
  await using limiter = new RateLimiter(POLICIES.large, options)
  const words = at('inspect', '--prefix', 'leased', '--key', 'user:42')
  await limiter.take('user:42')
  await until('the policies are registered', async () => {
    const { stdout } = await tollgate(words)
    return stdout.includes('Limiters of this prefix have leases of 1m: used units include those that processes hold')
  })
  expect(await json<KeyInspection>(words)).toMatchObject({ leases: ['1m'] })
})
