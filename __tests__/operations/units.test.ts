import { fixedWindow, gcra, type Policy, slidingLog, slidingWindow, tokenBucket } from '../../ts/index.js'
import { anything } from '../failure.js'
import { BACKENDS } from './stores.js'

const FIVE: readonly Policy[] = [
  gcra({ limit: 5, period: '1h' }),
  fixedWindow({ limit: 5, window: '1h' }),
  slidingWindow({ limit: 5, window: '1h' }),
  slidingLog({ limit: 5, window: '1h' }),
  tokenBucket({ capacity: 5, refill: { tokens: 5, every: '1h' }, refillMode: 'interval' }),
]

describe.each(BACKENDS)('tryTake: $name', (backend) => {
  test('takes units, and resolves to whether they fitted', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    expect(await limiter.tryTake('a')).toBe(true)
    expect(await limiter.tryTake('a', { cost: 4 })).toBe(true)
    expect(await limiter.tryTake('a')).toBe(false)
    expect(await limiter.tryTake('b', 6)).toBe(false)
    await expect(limiter.tryTake('')).rejects.toMatchObject({ code: 'INVALID_KEY' })
  })
})

describe.each(BACKENDS)('takeUpTo: $name', (backend) => {
  test.each(FIVE)('$algorithm: takes the remaining units, up to the request', async (policy) => {
    const limiter = backend.limiter(policy)
    expect(await limiter.takeUpTo('a', 3)).toMatchObject({ granted: 3, status: 'allowed', remaining: 2 })
    expect(await limiter.takeUpTo('a', 3)).toMatchObject({ granted: 2, status: 'allowed-last', remaining: 0 })
    const none = await limiter.takeUpTo('a', 3)
    expect(none).toMatchObject({ granted: 0, allowed: false, status: 'refused', remaining: 0 })
    expect(none.retryAfterMs).toBeGreaterThan(0)
    expect(await limiter.takeUpTo('b', 1_000)).toMatchObject({ granted: 5, status: 'allowed-last' })
  })

  test('a set of policies: the largest number of units that all admit', async () => {
    const limiter = backend.limiter({
      two: gcra({ limit: 2, period: '1h', per: 'ip' }),
      four: gcra({ limit: 4, period: '1h', per: 'user' }),
    })
    const granted = async (ip: string, user: string) => (await limiter.takeUpTo({ ip, user }, 3)).granted
    expect(await granted('1', 'ann')).toBe(2)
    expect(await granted('1', 'ann')).toBe(0)
    expect(await granted('2', 'ann')).toBe(2)
    expect(await granted('3', 'ann')).toBe(0)
    expect((await limiter.peek({ ip: '3', user: 'ann' }, 0)).policies.two.remaining).toBe(2)
  })

  test('its decision equals that of take', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    const { granted, ...decision } = await limiter.takeUpTo('a', 2)
    expect(granted).toBe(2)
    expect(Object.keys(decision)).toEqual(Object.keys(await limiter.take('b', 2)))
    expect(decision.policies.default).toMatchObject({ limit: 5, remaining: 3, retryAfterMs: 0 })
  })

  test.each([0, -1, 1.5, NaN, '3', null, undefined, 2 ** 53])('%p is not a number of units', async (units) => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    await expect(limiter.takeUpTo('a', anything(units))).rejects.toMatchObject({
      code: 'INVALID_COST',
      message: expect.stringMatching(/^units must be a whole number from 1 to 2\^53 - 1, got /),
    })
    expect((await limiter.peek('a', 0)).remaining).toBe(5)
  })
})

describe.each(BACKENDS)('penalize: $name', (backend) => {
  test.each(FIVE)('$algorithm: charges at most the remaining units', async (policy) => {
    const limiter = backend.limiter(policy)
    expect(await limiter.penalize('a', 3)).toBe(3)
    expect((await limiter.peek('a')).remaining).toBe(2)
    expect(await limiter.penalize('a')).toBe(1)
    expect(await limiter.penalize('a', 100)).toBe(1)
    expect(await limiter.penalize('a', 100)).toBe(0)
    expect((await limiter.take('a')).status).toBe('refused')
  })

  test('a set of policies: each is charged separately, and the largest charge is reported', async () => {
    const limiter = backend.limiter({
      two: gcra({ limit: 2, period: '1h' }),
      four: fixedWindow({ limit: 4, window: '1h' }),
    })
    await limiter.take('a', 2)
    expect(await limiter.penalize('a', 5)).toBe(2)
    expect((await limiter.peek('a', 0)).policies).toMatchObject({ two: { remaining: 0 }, four: { remaining: 0 } })
  })

  test('works during a block', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 4, window: '1h' }))
    await limiter.block('a', '1h')
    expect(await limiter.penalize('a', 3)).toBe(3)
    await limiter.unblock('a')
    expect((await limiter.peek('a', 0)).remaining).toBe(1)
  })

  test.each([0, -1, 0.5, '1', null])('%p is not a number of units', async (units) => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    await expect(limiter.penalize('a', anything(units))).rejects.toMatchObject({ code: 'INVALID_COST' })
  })
})

describe.each(BACKENDS)('order: $name', (backend) => {
  // promise: order-on-key
  test('operations on one key take effect in call order', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 10, window: '1h' }))
    const [first, charged, second, upTo, , blocked, , third, peeked] = await Promise.all([
      limiter.take('a'),
      limiter.penalize('a', 2),
      limiter.take('a'),
      limiter.takeUpTo('a', 100),
      limiter.block('a', '1h'),
      limiter.take('a'),
      limiter.reset('a'),
      limiter.take('a', 3),
      limiter.peek('a', 0),
    ])
    expect([first.remaining, charged, second.remaining, upTo.granted]).toEqual([9, 2, 6, 6])
    expect([blocked.status, third.remaining, peeked.remaining]).toEqual(['blocked', 7, 7])
  })
})
