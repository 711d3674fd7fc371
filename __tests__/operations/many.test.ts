import { calendarWindow, fixedWindow, gcra, leakyBucket, slidingLog, slidingWindow } from '../../ts/index.js'
import { BACKENDS } from './stores.js'

describe.each(BACKENDS)('several policies: $name', (backend) => {
  // promise: all-or-none
  test('all are charged or none, and the one that refuses is named', async () => {
    const limiter = backend.limiter({
      burst: fixedWindow({ limit: 2, window: '1h' }),
      daily: calendarWindow({ limit: 3, every: 'month' }),
    })
    expect(await limiter.take('a')).toMatchObject({
      status: 'allowed',
      policy: 'burst',
      limit: 2,
      remaining: 1,
      policies: {
        burst: { limit: 2, remaining: 1, retryAfterMs: 0 },
        daily: { limit: 3, remaining: 2, retryAfterMs: 0 },
      },
    })
    expect(await limiter.take('a')).toMatchObject({ status: 'allowed-last', policy: 'burst', remaining: 0 })
    const refused = await limiter.take('a')
    expect(refused).toMatchObject({ status: 'refused', policy: 'burst', policies: { daily: { remaining: 1 } } })
    expect(refused.policies.daily.retryAfterMs).toBe(0)
    expect(refused.policies.burst.retryAfterMs).toBe(refused.retryAfterMs)
    expect((await limiter.peek('a', 0)).policies.daily.remaining).toBe(1)
  })

  test('an impossible cost reports the smallest limit below it', async () => {
    const limiter = backend.limiter({
      ten: gcra({ limit: 10, period: '1h' }),
      five: leakyBucket({ capacity: 5, leak: { units: 1, every: '1h' } }),
      seven: slidingWindow({ limit: 7, window: '1h' }),
    })
    const decision = await limiter.take('a', 8)
    expect(decision).toMatchObject({ status: 'impossible', policy: 'five', limit: 5, retryAfterMs: null })
    const retries = Object.values(decision.policies).map(({ retryAfterMs }) => retryAfterMs)
    expect(retries).toEqual([0, null, null])
    expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 5, resetAfterMs: 0 })
  })

  test('limits of a slidingLog have both names, and declaration order breaks ties', async () => {
    const limits = { second: { limit: 5, window: '1s' }, hour: { limit: 50, window: '1h' } } as const
    const limiter = backend.limiter({ first: gcra({ limit: 5, period: '1h' }), logs: slidingLog({ limits }) })
    const decision = await limiter.take('a', 2)
    expect(Object.keys(decision.policies)).toEqual(['first', 'logs.second', 'logs.hour'])
    expect(decision).toMatchObject({ policy: 'first', remaining: 3, policies: { 'logs.hour': { remaining: 48 } } })
    expect(Object.keys(limiter.policies)).toEqual(['first', 'logs.second', 'logs.hour'])
    expect(limiter.policies['logs.hour']).toBe(limiter.policies['logs.second'])
  })

  test('a record of one policy reports its name', async () => {
    const limiter = backend.limiter({ only: gcra({ limit: 3, period: '1h' }) })
    const decision = await limiter.take('a')
    expect(decision).toMatchObject({ policy: 'only', remaining: 2, policies: { only: { remaining: 2 } } })
    expect(Object.keys(decision.policies)).toEqual(['only'])
    expect((await limiter.takeMany(['a', 'b'])).map(({ policy }) => policy)).toEqual(['only', 'only'])
    expect(Object.keys(limiter.policies)).toEqual(['only'])
  })

  test('a record of one policy may count refused calls', async () => {
    const limiter = backend.limiter({ only: fixedWindow({ limit: 3, window: '1h', countRefused: true }) })
    await limiter.take('a', 2)
    expect(await limiter.take('a', 2)).toMatchObject({ status: 'refused', remaining: 0 })
  })

  test('takeMany decides each key independently', async () => {
    const limiter = backend.limiter({
      one: gcra({ limit: 2, period: '1h' }),
      two: fixedWindow({ limit: 3, window: '1h' }),
    })
    const decisions = await limiter.takeMany(['a', 'b', 'a', 'a'])
    expect(decisions.map(({ status }) => status)).toEqual(['allowed', 'allowed', 'allowed-last', 'refused'])
    expect(decisions.map(({ policies }) => policies.two.remaining)).toEqual([2, 2, 1, 1])
  })
})

describe.each(BACKENDS)('policies with different key dimensions: $name', (backend) => {
  const login = () =>
    backend.limiter({
      ip: gcra({ limit: 3, period: '1h', per: 'ip' }),
      account: fixedWindow({ limit: 2, window: '1h', per: 'account' }),
      all: gcra({ limit: 6, period: '1h', per: 'global' }),
    })

  test('each policy counts its part of the key, and one decision covers all', async () => {
    const limiter = login()
    const first = await limiter.take({ ip: '1', account: 'ann' })
    expect(first).toMatchObject({ policy: 'account', policies: { ip: { remaining: 2 }, all: { remaining: 5 } } })
    await limiter.take({ ip: '2', account: 'ann' })
    expect(await limiter.take({ ip: '3', account: 'ann' })).toMatchObject({
      status: 'refused',
      policy: 'account',
      policies: { ip: { remaining: 3 }, account: { remaining: 0 }, all: { remaining: 4 } },
    })
    expect(await limiter.take({ ip: '1', account: 'ben' }, 2)).toMatchObject({ status: 'allowed-last' })
    expect(await limiter.take({ ip: '1', account: 'cid' })).toMatchObject({ status: 'refused', policy: 'ip' })
    expect(await limiter.take({ ip: '4', account: 'dan' }, { cost: 2 })).toMatchObject({ status: 'allowed-last' })
    expect(await limiter.take({ ip: '5', account: 'eve' })).toMatchObject({ status: 'refused', policy: 'all' })
  })

  test('equal texts in different parts are different keys', async () => {
    const limiter = login()
    await limiter.take({ ip: 'same', account: 'same' }, 2)
    const { policies } = await limiter.peek({ ip: 'same', account: 'same' }, 0)
    expect([policies.ip.remaining, policies.account.remaining, policies.all.remaining]).toEqual([1, 0, 4])
  })

  test('takeMany takes keys of several parts, and reports which failed', async () => {
    const limiter = login()
    const decisions = await limiter.takeMany([
      { ip: '1', account: 'ann' },
      { ip: '1', account: 'ben' },
    ])
    expect(decisions.map(({ policies }) => policies.ip.remaining)).toEqual([2, 1])
    const bad = limiter.takeMany([
      { ip: '1', account: '' },
      { ip: '2', account: 'cid' },
    ])
    await expect(bad).rejects.toMatchObject({
      code: 'INVALID_KEY',
      message: '1 of 2 keys failed, the first because key.account must not be empty',
      results: [{ code: 'INVALID_KEY' }, { allowed: true }],
      charged: true,
    })
  })

  test('after a failed takeMany, charged tells whether any key was charged', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 2, window: '1h' }))
    await expect(limiter.takeMany(['', 'a'])).rejects.toMatchObject({ charged: true })
    await expect(limiter.takeMany(['', 'a', ''], [1, 1, 1])).rejects.toMatchObject({ charged: true })
    // A refusal charges nothing.
    await expect(limiter.takeMany(['a', ''])).rejects.toMatchObject({
      charged: false,
      results: [{ allowed: false }, {}],
    })
    await expect(limiter.takeMany(['', ''])).rejects.toMatchObject({ charged: false })
  })

  test('a single policy may have a key dimension', async () => {
    const limiter = backend.limiter(gcra({ limit: 3, period: '1h', per: 'tenant' }))
    expect(await limiter.take({ tenant: 'a' })).toMatchObject({ policy: 'default', remaining: 2 })
    expect(limiter.policies.default).toMatchObject({ algorithm: 'gcra', per: 'tenant' })
  })

  test('with nothing but global policies the key is {}', async () => {
    const limiter = backend.limiter({ all: gcra({ limit: 3, period: '1h', per: 'global' }) })
    await limiter.take({})
    expect(await limiter.take({})).toMatchObject({ remaining: 1 })
    await limiter.reset({ global: true })
    expect(await limiter.take({})).toMatchObject({ remaining: 2 })
  })

  test('a part can be reset alone, and global counts only if they are named', async () => {
    const limiter = login()
    const key = { ip: '1', account: 'ann' }
    await limiter.take(key, 2)
    const remaining = async () => Object.values((await limiter.peek(key, 0)).policies).map((one) => one.remaining)
    await limiter.reset({ ip: '1' })
    expect(await remaining()).toEqual([3, 0, 4])
    await limiter.reset(key)
    expect(await remaining()).toEqual([3, 2, 4])
    await limiter.reset({ global: true })
    expect(await remaining()).toEqual([3, 2, 6])
  })
})
