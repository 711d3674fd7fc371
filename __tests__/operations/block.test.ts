import { fixedWindow, gcra, slidingLog } from '../../ts/index.js'
import { anything } from '../failure.js'
import { BACKENDS } from './stores.js'

describe.each(BACKENDS)('block: $name', (backend) => {
  // promise: block-refuses
  test('every call is refused until it ends, even with units left', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    await limiter.block('a', '300ms')
    const blocked = await limiter.take('a')
    expect(blocked).toMatchObject({ allowed: false, status: 'blocked', remaining: 5 })
    expect([blocked.retryAfterMs, blocked.resetAfterMs]).toEqual([300, 300])
    expect((await limiter.peek('a')).status).toBe('blocked')
    expect(await limiter.takeUpTo('a', 3)).toMatchObject({ status: 'blocked', granted: 0 })
    expect((await limiter.take('b')).status).toBe('allowed')
    await backend.pass(299)
    expect(await limiter.take('a')).toMatchObject({ status: 'blocked', retryAfterMs: 1 })
    await backend.pass(1)
    expect(await limiter.take('a')).toMatchObject({ status: 'allowed', remaining: 4 })
  })

  test('charged units stay, and the later retry time is reported', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 2, window: '1h' }))
    await limiter.take('a', 2)
    await limiter.block('a', '1s')
    const full = await limiter.take('a')
    expect(full.status).toBe('blocked')
    expect(full.retryAfterMs).toBe(3_600_000)
    await limiter.unblock('a')
    expect((await limiter.take('a')).status).toBe('refused')
  })

  test('another block extends the first and never shortens it', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    await limiter.block('a', '1h')
    await limiter.block('a', '100ms')
    expect((await limiter.take('a')).retryAfterMs).toBe(3_600_000)
    await limiter.block('a', '2h')
    expect((await limiter.take('a')).retryAfterMs).toBe(7_200_000)
    await limiter.unblock('a')
    await limiter.block('a', '100ms')
    await backend.pass(100)
    expect((await limiter.take('a')).status).toBe('allowed')
  })

  test('unblock and reset end it, and may be called without one', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    await limiter.unblock('a')
    await limiter.block('a', '1h')
    await limiter.unblock('a')
    expect((await limiter.take('a')).status).toBe('allowed')
    await limiter.block('a', '1h')
    await limiter.reset('a')
    expect((await limiter.take('a')).remaining).toBe(4)
  })

  test('an impossible cost stays impossible', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    await limiter.block('a', '1h')
    expect(await limiter.take('a', 6)).toMatchObject({ status: 'impossible', retryAfterMs: null })
  })

  test('a block on one part of a key refuses the call, and other parts do not', async () => {
    const limiter = backend.limiter({
      ip: gcra({ limit: 5, period: '1h', per: 'ip' }),
      account: gcra({ limit: 4, period: '1h', per: 'account' }),
      all: gcra({ limit: 100, period: '1h', per: 'global' }),
    })
    await limiter.block({ ip: '1' }, '1h')
    const blocked = await limiter.take({ ip: '1', account: 'ann' })
    expect(blocked).toMatchObject({ status: 'blocked', policy: 'ip', policies: { account: { retryAfterMs: 0 } } })
    expect(blocked.policies.ip.retryAfterMs).toBe(blocked.retryAfterMs)
    expect((await limiter.take({ ip: '2', account: 'ann' })).policies.account.remaining).toBe(3)
    await limiter.unblock({ ip: '1', account: 'ann' })
    expect((await limiter.take({ ip: '1', account: 'ann' })).status).toBe('allowed')
    await limiter.block({ global: true }, '1h')
    expect(await limiter.take({ ip: '3', account: 'ben' })).toMatchObject({ status: 'blocked', policy: 'all' })
  })

  test('the limits of a slidingLog are blocked together', async () => {
    const limits = { short: { limit: 1, window: '1s' }, long: { limit: 9, window: '1h' } } as const
    const limiter = backend.limiter(slidingLog({ limits }))
    await limiter.block('a', '1m')
    const { status, policies } = await limiter.take('a')
    expect(status).toBe('blocked')
    expect(policies.long.retryAfterMs).toBe(policies.short.retryAfterMs)
  })

  test.each([0, -1, NaN, Infinity, '1y', '', null, undefined, {}, `${1e6}d`])(
    '%p is not a duration',
    async (duration) => {
      const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
      await expect(limiter.block('a', anything(duration))).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^duration must be /),
      })
      expect((await limiter.take('a')).allowed).toBe(true)
    },
  )
})
