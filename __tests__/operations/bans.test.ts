/** `ban` and `blockFor`: blocks that refused calls start. */
import {
  fixedWindow,
  gcra,
  MemoryStore,
  type Policies,
  type Policy,
  RateLimiter,
  type RateLimiterOptions,
  RedisStore,
  slidingLog,
  tiers,
} from '../../ts/index.js'
import { anything, failureOf } from '../failure.js'
import { warningsOf } from '../middleware/warnings.js'
import { openedRedis } from '../redis/opened.js'
import { BACKENDS } from './stores.js'

const HOUR_MS = 3_600_000

const one = gcra({ limit: 1, period: '1h' })
const three = { after: 3, period: '10m', for: ['1m', '10m', '1h'], ttl: '1d' } as const

/** The statuses of successive calls on a key. */
async function statuses(limiter: { take(key: string): Promise<{ status: string }> }, calls: number): Promise<string[]> {
  const taken = Array.from({ length: calls }, () => limiter.take('a'))
  return (await Promise.all(taken)).map(({ status }) => status)
}

describe.each(BACKENDS)('bans: $name', (backend) => {
  test('the last of the strikes bans, and reports the time of the ban', async () => {
    const limiter = backend.limiter(one, { ban: { ...three, for: '2h' } })
    expect(await statuses(limiter, 3)).toEqual(['allowed-last', 'refused', 'refused'])
    const banned = await limiter.take('a')
    expect(banned).toMatchObject({ allowed: false, status: 'blocked', policy: 'default', ban: { step: 1 } })
    const { ban, at, retryAfterMs } = banned as Extract<typeof banned, { status: 'blocked' }>
    expect(ban?.until).toBe(Math.ceil(at + 2 * HOUR_MS))
    expect(retryAfterMs).toBe(2 * HOUR_MS)
    expect(Number.isInteger(ban?.until)).toBe(true)
    expect(await limiter.peek('a', 1)).toMatchObject({ status: 'blocked', ban })
    expect((await limiter.take('b')).status).toBe('allowed-last')
  })

  test('a ban shorter than the refill time reports the refill time, as the call fits no earlier', async () => {
    const limiter = backend.limiter(one, { blockFor: '1m' })
    await limiter.take('a')
    const banned = await limiter.take('a')
    expect(banned).toMatchObject({ status: 'blocked', ban: { step: 1 } })
    expect(banned.retryAfterMs).toBe(HOUR_MS)
  })

  test('each ban is longer, the last length repeats, and reset forgets all', async () => {
    const limiter = backend.limiter(one, { ban: { for: ['30ms', '60ms'], ttl: '1h' } })
    await limiter.take('a')
    const steps: unknown[] = []
    for (let time = 0; time < 3; time++) {
      const banned = await limiter.take('a')
      steps.push((banned as { ban?: { step: number } }).ban?.step)
      await backend.pass(60)
    }
    expect(steps).toEqual([1, 2, 2])
    await limiter.reset('a')
    expect((await statuses(limiter, 2)).at(-1)).toBe('blocked')
    expect(await limiter.take('a')).toMatchObject({ ban: { step: 1 } })
  })

  test('a ban is forgotten a while after its end', async () => {
    const limiter = backend.limiter(one, { ban: { for: ['20ms', '1h'], ttl: '30ms' } })
    await limiter.take('a')
    expect(await limiter.take('a')).toMatchObject({ ban: { step: 1 } })
    await backend.pass(51)
    expect(await limiter.take('a')).toMatchObject({ ban: { step: 1 } })
  })

  test('strikes count within a window', async () => {
    const limiter = backend.limiter(one, { ban: { after: 2, period: '50ms', for: '1h' } })
    expect(await statuses(limiter, 2)).toEqual(['allowed-last', 'refused'])
    await backend.pass(50)
    expect(await statuses(limiter, 2)).toEqual(['refused', 'blocked'])
  })

  test('unblock ends a ban, and the next one is longer', async () => {
    const limiter = backend.limiter(one, { ban: { for: ['1h', '2h'] } })
    expect((await statuses(limiter, 2)).at(-1)).toBe('blocked')
    await limiter.unblock('a')
    expect((await limiter.peek('a', 1)).status).toBe('refused')
    expect(await limiter.take('a')).toMatchObject({ status: 'blocked', ban: { step: 2 } })
    await limiter.block('a', '1h')
    expect(await limiter.take('a')).toMatchObject({ status: 'blocked', ban: { step: 2 } })
    await limiter.block('a', '3h')
    const blocked = await limiter.take('a')
    expect(blocked.status).toBe('blocked')
    expect(blocked).not.toHaveProperty('ban')
  })

  test('what is no strike', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 2, window: '1h' }), { blockFor: '1h' })
    await limiter.take('a', 2)
    expect((await limiter.take('a', 3)).status).toBe('impossible')
    expect((await limiter.peek('a', 1)).status).toBe('refused')
    expect(await limiter.takeUpTo('a', 2)).toMatchObject({ status: 'refused', granted: 0 })
    expect(await limiter.penalize('a', 2)).toBe(0)
    expect((await limiter.reserve('a', 1)).allowed).toBe(false)
    expect((await limiter.peek('a', 1)).status).toBe('blocked')
  })

  test('waiting is no strike', async () => {
    const limiter = backend.limiter(one, { blockFor: '1h' })
    await limiter.take('a')
    expect(await limiter.wait('a', { maxWait: 1, onTooLong: 'resolve' })).toMatchObject({ status: 'refused' })
    expect((await limiter.peek('a', 1)).status).toBe('refused')
  })

  test('the policies that refuse ban their keys, but not that of all calls', async () => {
    const limiter = backend.limiter(
      {
        ip: gcra({ limit: 1, period: '1h', per: 'ip' }),
        account: gcra({ limit: 3, period: '1h', per: 'account' }),
        all: gcra({ limit: 4, period: '1h', per: 'global' }),
      },
      { blockFor: '1d' },
    )
    await limiter.take({ ip: '1', account: 'ann' })
    expect(await limiter.take({ ip: '1', account: 'ann' })).toMatchObject({
      status: 'blocked',
      policy: 'ip',
      ban: { step: 1 },
      policies: { account: { retryAfterMs: 0 } },
    })
    expect((await limiter.take({ ip: '2', account: 'ann' })).allowed).toBe(true)
    expect((await limiter.take({ ip: '3', account: 'ann' })).allowed).toBe(true)
    // Both policies of ann refuse, and both keys are banned.
    expect((await limiter.take({ ip: '3', account: 'ann' })).status).toBe('blocked')
    expect((await limiter.take({ ip: '4', account: 'ann' })).status).toBe('blocked')
    expect((await limiter.take({ ip: '3', account: 'ben' })).status).toBe('blocked')
    expect((await limiter.take({ ip: '5', account: 'ben' })).allowed).toBe(true)
    // Now the limit of all calls refuses.
    expect((await limiter.take({ ip: '6', account: 'cem' })).status).toBe('refused')
    expect((await limiter.take({ ip: '6', account: 'cem' })).status).toBe('refused')
  })

  test('only the named policies give strikes', async () => {
    const policies = {
      ip: gcra({ limit: 1, period: '1h', per: 'ip' }),
      account: gcra({ limit: 1, period: '1h', per: 'account' }),
    }
    const limiter = backend.limiter(policies, { ban: { for: '1d', policies: ['ip'] } })
    await limiter.take({ ip: '1', account: 'ann' })
    expect((await limiter.take({ ip: '2', account: 'ann' })).status).toBe('refused')
    expect((await limiter.take({ ip: '1', account: 'ben' })).status).toBe('blocked')
  })

  test('ban.per bans the address that guesses at one account, and not the account', async () => {
    const policies = {
      ip: fixedWindow({ limit: 20, window: '1h', per: 'ip' }),
      account: fixedWindow({ limit: 5, window: '1h', per: 'account' }),
    }
    const limiter = backend.limiter(policies, { ban: { ...three, after: 5, per: 'ip' } })
    const guesses: string[] = []
    for (let guess = 1; guess <= 10; guess++) {
      guesses.push((await limiter.take({ ip: 'x', account: 'ann' })).status)
    }
    const refusals = ['allowed-last', 'refused', 'refused', 'refused', 'refused', 'blocked']
    expect(guesses).toEqual(['allowed', 'allowed', 'allowed', 'allowed', ...refusals])
    const banned = await limiter.take({ ip: 'x', account: 'bob' })
    expect(banned).toMatchObject({ status: 'blocked', policy: 'ip', ban: { step: 1 } })
    expect((await limiter.take({ ip: 'y', account: 'ann' })).status).toBe('refused')
    expect((await limiter.peek({ ip: 'y', account: 'bob' })).used).toBe(0)
  })

  test('ban.per with ban.policies: refusals by the others are no strikes', async () => {
    const policies = {
      ip: fixedWindow({ limit: 2, window: '1h', per: 'ip' }),
      account: fixedWindow({ limit: 1, window: '1h', per: 'account' }),
    }
    const limiter = backend.limiter(policies, { ban: { for: '1h', per: 'account', policies: ['ip'] } })
    const statusOf = async (ip: string, account: string) => (await limiter.take({ ip, account })).status
    expect(await statusOf('x', 'ann')).toBe('allowed-last')
    expect(await statusOf('x', 'ann')).toBe('refused')
    expect(await statusOf('x', 'bob')).toBe('allowed-last')
    expect(await statusOf('x', 'cat')).toBe('blocked')
    expect(await statusOf('y', 'cat')).toBe('blocked')
    expect(await statusOf('x', 'dan')).toBe('blocked')
    expect(await statusOf('y', 'eve')).toBe('allowed-last')
  })

  test('with a policy that counts refused calls', async () => {
    const limiter = backend.limiter(slidingLog({ limit: 2, window: '1h', countRefused: true }), {
      ban: { after: 2, period: '1h', for: '2h' },
    })
    expect(await statuses(limiter, 5)).toEqual(['allowed', 'allowed-last', 'refused', 'blocked', 'blocked'])
  })

  test('with an override, and after an update of tiers', async () => {
    const policy = tiers({ free: one, pro: gcra({ limit: 5, period: '1h' }) })
    const limiter = backend.limiter(policy, { ban: { after: 2, period: '1h', for: '1h' } })
    const take = async () => (await limiter.take('a', { tier: 'free' })).status
    expect([await take(), await take()]).toEqual(['allowed-last', 'refused'])
    await limiter.override('a', { limit: 2, burst: 2 }, { ttl: '1h', tier: 'free' })
    expect((await limiter.take('a', { tier: 'pro' })).allowed).toBe(true)
    limiter.update(policy)
    // Since the strike a call was admitted, so the next refusal is none.
    expect([await take(), await take()]).toEqual(['refused', 'blocked'])
    expect((await limiter.take('a', { tier: 'pro' })).status).toBe('blocked')
  })

  // promise: waiting-gets-no-strike
  test('a client that waits for retryAfterMs is never banned, one that does not wait is', async () => {
    const policies = {
      rate: gcra({ limit: 1, period: '20ms', burst: 1 }),
      window: fixedWindow({ limit: 3, window: '100ms' }),
    }
    const limiter = backend.limiter(policies, { ban: { after: 2, period: '1h', for: '1d' } })
    const seen = new Set<string>()
    let reported = ''
    for (let call = 0; call < 30; call++) {
      const decision = await limiter.take('waiting')
      seen.add(decision.status)
      if (!decision.allowed) {
        reported += decision.policy === 'rate' ? 'r' : 'w'
        await backend.pass(decision.retryAfterMs as number)
      }
    }
    expect(seen).not.toContain('blocked')
    if (backend.name === 'embedded') {
      // By a real clock calls may be too slow to be refused.
      expect(reported).toMatch(/r.*w/)
    }
    const hasty = await Promise.all(Array.from({ length: 5 }, () => limiter.take('hasty')))
    expect(hasty.map(({ status }) => status)).toEqual(['allowed-last', 'refused', 'blocked', 'blocked', 'blocked'])
  })

  test('the first refusal after an override that a refusal named is no strike', async () => {
    const limiter = backend.limiter(one, { ban: { after: 2, period: '1h', for: '1d' } })
    await limiter.take('a')
    await limiter.override('a', { limit: 1, burst: 1 }, { ttl: '2s' })
    const refused = await limiter.take('a')
    expect(refused.retryAfterMs).toBeLessThanOrEqual(2_000)
    await backend.pass(refused.retryAfterMs as number)
    expect((await limiter.take('a')).status).toBe('refused')
    expect((await limiter.take('a')).status).toBe('blocked')
  })
})

describe('several processes', () => {
  const opened = openedRedis()

  test('a limiter without bans sees the ban of another as a block', async () => {
    await using store = new RedisStore({ url: opened.server.url, commandTimeout: 30_000 })
    const own = new RateLimiter(one, { store: opened.store, prefix: 'bans', blockFor: '2h' })
    const other = new RateLimiter(one, { store, prefix: 'bans' })
    await own.take('a')
    expect(await own.take('a')).toMatchObject({ status: 'blocked', ban: { step: 1 } })
    const blocked = await other.take('a')
    expect(blocked.status).toBe('blocked')
    expect(blocked.retryAfterMs).toBeGreaterThan(HOUR_MS)
    expect(blocked).not.toHaveProperty('ban')
  })

  test('strikes of all processes count together', async () => {
    await using store = new RedisStore({ url: opened.server.url, commandTimeout: 30_000 })
    const ban = { after: 4, period: '1h', for: '1h' } as const
    const limiters = [opened.store, store].map((store) => new RateLimiter(one, { store, prefix: 'together', ban }))
    const seen: string[] = []
    for (let call = 0; call < 6; call++) {
      const limiter = limiters[call % 2] as (typeof limiters)[number]
      seen.push((await limiter.take('a')).status)
    }
    expect(seen).toEqual(['allowed-last', 'refused', 'refused', 'refused', 'blocked', 'blocked'])
  })
})

test.each<[string, object, string]>([
  [
    'both options',
    { ban: three, blockFor: '1m' },
    'ban and blockFor cannot be used together: blockFor is ban: { for: blockFor }',
  ],
  [
    'no window',
    { ban: { after: 3, for: '1m' } },
    "ban.period must be given if after is above 1: the time in which strikes count, such as '10m'",
  ],
  ['no length', { ban: { after: 1 } }, 'ban.for must be a duration above 0'],
  ['an empty list of lengths', { ban: { for: [] } }, 'ban.for must be 1 to 16 durations, got'],
  ['an invalid length', { ban: { for: ['1m', 0] } }, 'ban.for[1] must be a duration above 0'],
  ['no strike', { ban: { after: 0, for: '1m' } }, 'ban.after must be'],
  ['another option', { ban: { for: '1m', tll: '1d' } }, 'did you mean "ttl"?'],
  ['an older name of ttl', { ban: { for: '1m', forget: '1d' } }, 'did you mean "ttl"?'],
  ['an older name of period', { ban: { after: 2, within: '1m', for: '1m' } }, 'did you mean "period"?'],
  ['a duration', { ban: { duration: '1m' } }, 'did you mean "for"?'],
  ['an invalid blockFor', { blockFor: 'soon' }, 'blockFor must be a duration above 0'],
  ['a ban that is no object', { ban: '5m' }, 'ban takes an object of options'],
])('INVALID_OPTION for %s', (_, options, message) => {
  expect(() => new RateLimiter(one, options as RateLimiterOptions)).toThrow(
    expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining(message) }),
  )
})

test('the named policies must have keys to ban', () => {
  const policies = {
    ip: gcra({ limit: 1, period: '1h', per: 'ip' }),
    all: gcra({ limit: 9, period: '1h', per: 'global' }),
  }
  const failure = (policy: Policies | Policy, names: unknown) =>
    failureOf(() => new RateLimiter(policy, { ban: { for: '1m', policies: anything(names) } }))
  expect(failure(policies, ['all']).message).toBe('ban.policies must name some of "ip", got "all"')
  expect(failure(policies, 'ip').message).toMatch(/^ban.policies must be an array of names of policies, got "ip"/)
  expect(failure(policies, []).message).toMatch(/^ban.policies must be an array of names/)
  expect(failure(one, ['default']).message).toBe('ban.policies is for several policies by name, got "default"')
  const perFailure = (of: Policies | Policy, per: string) => {
    return failureOf(() => new RateLimiter(of, { ban: { for: '1m', per } })).message
  }
  expect(perFailure(policies, 'global')).toBe('ban.per must be the per of a policy: one of "ip", got "global"')
  expect(perFailure(one, 'ip')).toBe('ban.per is for several policies with a per, got "ip"')
})

test('INVALID_OPTION if there is no key to ban', () => {
  const all = gcra({ limit: 1, period: '1h', per: 'global' })
  expect(() => new RateLimiter({ all }, { blockFor: '1m' })).toThrow('ban has no key to ban')
})

test('limiters of one prefix may have rules of their own, and share the bans', async () => {
  const store = new MemoryStore()
  const open = (options: Pick<RateLimiterOptions, 'ban' | 'blockFor'>) =>
    new RateLimiter(one, { ...options, store, prefix: 'a' })
  const warnings = await warningsOf(async () => {
    const [minute, none] = [open({ blockFor: '1m' }), open({})]
    none.takeSync('a')
    expect(none.takeSync('a').status).toBe('refused')
    expect(minute.takeSync('a').status).toBe('blocked')
    expect(none.takeSync('a').status).toBe('blocked')
  })
  expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_OTHER_NUMBERS'])
})

test('a key that shares its count in a full store gets no strikes', () => {
  const limiter = new RateLimiter(one, { store: new MemoryStore({ maxKeys: 1 }), blockFor: '1h' })
  limiter.takeSync('resident')
  expect(limiter.takeSync('a').status).toBe('allowed-last')
  expect(limiter.takeSync('a').status).toBe('refused')
  // There is no room for the ban of a key with its own count either.
  expect(limiter.takeSync('resident').status).toBe('refused')
})
