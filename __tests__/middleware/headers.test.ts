/** The header fields for all kinds of limits, and the windows of policies. */
import { parseList } from 'structured-headers'
import type { Decision, Policies, Policy } from '../../ts/index.js'
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  MemoryStore,
  RateLimiter,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'
import { headerWriterFor } from '../../ts/middleware/shared/headers.js'
import type { HeaderForm } from '../../ts/middleware/shared/options.js'
import { windowMsOf } from '../../ts/policies/window.js'
import { FakeClock } from '../clock.js'

const second = (tokens: number) => ({ tokens, every: '1s' }) as const

describe('windowMsOf', () => {
  test.each<[string, Policy, number]>([
    ['a window', fixedWindow({ limit: 5, window: '90s' }), 90_000],
    ['a window', slidingWindow({ limit: 5, window: '1m' }), 60_000],
    ['a window', slidingCounter({ limit: 5, window: '1h' }), 3_600_000],
    ['a window', slidingLog({ limit: 5, window: 250 }), 250],
    ['an hour', calendarWindow({ limit: 5, every: 'hour' }), 3_600_000],
    ['a part of a day', calendarWindow({ limit: 5, every: '15m' }), 900_000],
    ['a day of 24 hours', calendarWindow({ limit: 5, every: 'day', timeZone: 'Europe/Berlin' }), 86_400_000],
    ['a week', calendarWindow({ limit: 5, every: 'week' }), 604_800_000],
    ['30 days', calendarWindow({ limit: 5, every: 'month' }), 2_592_000_000],
    ['the time for a burst to refill', gcra({ limit: 10, period: '1s', burst: 25 }), 2_500],
    ['the same, rounded up to a microsecond', gcra({ limit: 3, period: '1s', burst: 1 }), 333.334],
    ['the time for a bucket to drain', leakyBucket({ capacity: 15, leak: { units: 1, every: '2s' } }), 30_000],
    ['the time for a bucket to fill', tokenBucket({ capacity: 30, refill: second(10) }), 3_000],
    ['the time for a bucket to fill from its debt', tokenBucket({ capacity: 30, refill: second(10), debt: 20 }), 5_000],
    ['whole intervals', tokenBucket({ capacity: 30, refill: second(20), refillMode: 'interval' }), 2_000],
    ['no rounding of large numbers', gcra({ limit: 9_007_199_254_740_991, period: '1h' }), 3_600_000],
  ])('is %s', (_, policy, millis) => {
    expect(windowMsOf(policy)).toBe(millis)
  })

  test('is the window of a limit of a slidingLog, or the longest', () => {
    const logs = slidingLog({ limits: { second: { limit: 2, window: '1s' }, hour: { limit: 9, window: '1h' } } })
    expect([windowMsOf(logs, 'second'), windowMsOf(logs, 'hour'), windowMsOf(logs)]).toEqual([
      1_000, 3_600_000, 3_600_000,
    ])
  })
})

function limiterOf<const P extends Policy | Policies>(policies: P) {
  const clock = new FakeClock()
  return { clock, limiter: new RateLimiter(policies, { store: new MemoryStore({ clock: clock.read }) }) }
}

/** The fields of a decision, by name. */
function written(
  form: HeaderForm | readonly HeaderForm[],
  policies: Policies,
  decision: Decision,
  prefix?: string,
): Record<string, string> {
  const fields: Record<string, string> = {}
  headerWriterFor([form].flat() as HeaderForm[], policies, prefix).write(decision, (name, value) => {
    expect(fields).not.toHaveProperty(name)
    fields[name] = value
  })
  return fields
}

describe('the fields', () => {
  test('for a slidingLog with limits have an item for each limit, under the names in decisions', async () => {
    const limits = { second: { limit: 2, window: '1s' }, hour: { limit: 9, window: '1h' } } as const
    const { limiter } = limiterOf({ 'a.b': slidingLog({ limits }), c: fixedWindow({ limit: 7, window: '1m' }) })
    const fields = written('draft-8', limiter.policies, await limiter.take('ann'))
    expect(fields).toEqual({
      'RateLimit-Policy': '"a.b.second";q=2;w=1, "a.b.hour";q=9;w=3600, "c";q=7;w=60',
      RateLimit: '"a.b.second";r=1;t=1, "a.b.hour";r=8;t=3600, "c";r=6;t=60',
    })
  })

  test('for a key with an override have its quota, and no window, which may not apply', async () => {
    const { limiter } = limiterOf({
      burst: gcra({ limit: 10, period: '1s' }),
      daily: fixedWindow({ limit: 50, window: '1d' }),
    })
    await limiter.override('bob', { burst: { limit: 99 } }, { ttl: '1h' })
    const decisions = [await limiter.take('ann'), await limiter.take('bob'), await limiter.take('ann')]
    const policies = decisions.map((decision) => written('draft-8', limiter.policies, decision)['RateLimit-Policy'])
    const usual = '"burst";q=10;w=1, "daily";q=50;w=86400'
    expect(policies).toEqual([usual, '"burst";q=99, "daily";q=50;w=86400', usual])
    // A refusal from this process's memory is under the same override.
    const cached = { ...(decisions[1] as Decision), source: 'cache' } as Decision
    expect(written('draft-8', limiter.policies, cached)['RateLimit-Policy']).toBe(policies[1])
    const older = written('draft-6', limiter.policies, decisions[1] as Decision)
    expect(older).toMatchObject({ 'RateLimit-Policy': '50;w=86400', 'RateLimit-Limit': '50' })
  })

  test('without a unit left have the time until the next one, also for a key with an override', async () => {
    const { limiter } = limiterOf(gcra({ limit: 6, period: '1m', burst: 2 }))
    await limiter.override('bob', { limit: 2 }, { ttl: '1h' })
    for (const [key, time] of [
      ['ann', 10],
      ['bob', 30],
    ] as const) {
      const last = await limiter.take(key, 2)
      expect(last.status).toBe('allowed-last')
      for (const form of ['draft-8', 'draft-11'] as const) {
        expect(written(form, limiter.policies, last)['RateLimit']).toBe(`"default";r=0;t=${time}`)
      }
      expect(written('draft-6', limiter.policies, last)['RateLimit-Reset']).toBe(String(time))
    }
  })

  test('never have a window that is longer than it is, or the second after its end', async () => {
    const limiter = new RateLimiter({
      window: fixedWindow({ limit: 5, window: '10m' }),
      day: calendarWindow({ limit: 1, every: 'day' }),
    })
    const decision = await limiter.take('ann')
    expect(written('draft-8', limiter.policies, decision)['RateLimit']).toMatch(/^"window";r=4;t=600, "day";r=0;/)
    expect(Number(written('legacy', limiter.policies, decision)['X-RateLimit-Reset']) % 86_400).toBe(0)
  })

  test('for a blocked key show 0 remaining until the block ends', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 5, window: '1m' }))
    await limiter.block('ann', '1h')
    const decision = await limiter.take('ann')
    expect(decision).toMatchObject({ status: 'blocked', remaining: 5 })
    expect(written('draft-8', limiter.policies, decision)).toMatchObject({ RateLimit: '"default";r=0;t=3600' })
    expect(written('draft-6', limiter.policies, decision)).toMatchObject({
      'RateLimit-Remaining': '0',
      'RateLimit-Reset': '3600',
    })
  })

  test('for a blocked key show 0 remaining to a cost that never fits, too', async () => {
    const { limiter } = limiterOf({
      address: fixedWindow({ limit: 5, window: '1m', per: 'ip' }),
      account: fixedWindow({ limit: 5, window: '1m', per: 'user' }),
    })
    await limiter.block({ ip: '192.0.2.1' }, '1h')
    const decision = await limiter.take({ ip: '192.0.2.1', user: 'ann' }, 6)
    expect(decision).toMatchObject({ status: 'impossible', policy: 'address', remaining: 5 })
    expect(written('draft-8', limiter.policies, decision)['RateLimit']).toBe('"address";r=0, "account";r=5')
    expect(written('draft-6', limiter.policies, decision)).toMatchObject({
      'RateLimit-Remaining': '0',
      'RateLimit-Reset': '3600',
    })
    expect(written('legacy', limiter.policies, decision)).toMatchObject({ 'X-RateLimit-Remaining': '0' })
  })

  test('for a refusal have the time for its cost at the refusing limits, and the reset of the others', async () => {
    const { limiter, clock } = limiterOf({
      burst: fixedWindow({ limit: 5, window: 2_001 }),
      daily: fixedWindow({ limit: 50, window: '1d' }),
    })
    await limiter.take('ann', 4)
    clock.advance(1_000)
    const decision = await limiter.take('ann', 3)
    expect(decision.allowed).toBe(false)
    expect(written('draft-8', limiter.policies, decision)).toMatchObject({
      RateLimit: '"burst";r=1;t=2, "daily";r=46;t=86399',
    })
  })

  test.each(['draft-8', 'draft-11'] as const)(
    '%s: for a cost that never fits have no time, which would not help',
    async (form) => {
      const { limiter } = limiterOf({
        burst: fixedWindow({ limit: 5, window: '1m' }),
        daily: fixedWindow({ limit: 50, window: '1d' }),
      })
      await limiter.take('ann', 2)
      const decision = await limiter.take('ann', 6)
      expect(decision.status).toBe('impossible')
      expect(written(form, limiter.policies, decision)).toMatchObject({
        RateLimit: '"burst";r=3, "daily";r=48;t=86400',
      })
    },
  )

  test('are integers of structured fields, however large the limits', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: Number.MAX_SAFE_INTEGER, window: '1d' }))
    const fields = written('draft-8', limiter.policies, await limiter.take('ann'))
    for (const value of Object.values(fields)) {
      const [[, parameters]] = parseList(value) as unknown as [[string, Map<string, number>]]
      expect(parameters.get('q') ?? parameters.get('r')).toBe(999_999_999_999_999)
    }
  })

  test('show a window shorter than a second as one second', async () => {
    const { limiter } = limiterOf(fixedWindow({ limit: 5, window: 10 }))
    const fields = written('draft-8', limiter.policies, await limiter.take('ann'))
    expect(fields).toEqual({ 'RateLimit-Policy': '"default";q=5;w=1', RateLimit: '"default";r=4;t=1' })
  })
})

describe('the item of a single limit without a name', () => {
  const policy = fixedWindow({ limit: 5, window: '1m' })

  test('has the prefix of the limiter as its name', async () => {
    const limiter = new RateLimiter(policy, { prefix: 'search.v2' })
    expect(limiter.prefix).toBe('search.v2')
    expect(written('draft-8', limiter.policies, await limiter.take('ann'), limiter.prefix)).toEqual({
      'RateLimit-Policy': '"search.v2";q=5;w=60',
      RateLimit: expect.stringContaining('"search.v2";r=4;'),
    })
    await limiter.close()
  })

  test('has the name default without a prefix', async () => {
    const { limiter } = limiterOf(policy)
    expect(limiter.prefix).toBeUndefined()
    expect(written('draft-8', limiter.policies, await limiter.take('ann'), limiter.prefix)).toMatchObject({
      'RateLimit-Policy': '"default";q=5;w=60',
    })
  })

  test('differs from limits with names, which keep them', async () => {
    const { limiter } = limiterOf({ default: policy, daily: fixedWindow({ limit: 9, window: '1d' }) })
    const fields = written('draft-8', limiter.policies, await limiter.take('ann'), 'api')
    expect(fields).toMatchObject({ 'RateLimit-Policy': '"default";q=5;w=60, "daily";q=9;w=86400' })
  })
})

describe('several forms', () => {
  const policies = { burst: fixedWindow({ limit: 5, window: '1s' }), daily: fixedWindow({ limit: 9, window: '1d' }) }

  test.each(['draft-8', 'draft-11'] as const)(
    'draft 6 and %s share RateLimit-Policy, in the later form',
    async (later) => {
      const { limiter } = limiterOf(policies)
      const decision = await limiter.take('ann')
      const fields = {
        'RateLimit-Limit': '5',
        'RateLimit-Remaining': '4',
        'RateLimit-Reset': '1',
        ...written(later, policies, decision),
      }
      expect(fields).toHaveProperty('RateLimit')
      expect(written(['draft-6', later], policies, decision)).toEqual(fields)
      expect(written([later, 'draft-6'], policies, decision)).toEqual(fields)
    },
  )

  test('the older fields stand beside any others', async () => {
    const { limiter } = limiterOf(policies)
    const decision = await limiter.take('ann')
    expect(Object.keys(written(['draft-6', 'legacy'], policies, decision)).sort()).toEqual([
      'RateLimit-Limit',
      'RateLimit-Policy',
      'RateLimit-Remaining',
      'RateLimit-Reset',
      'X-RateLimit-Limit',
      'X-RateLimit-Remaining',
      'X-RateLimit-Reset',
    ])
  })
})

describe('the effective window of draft 11', () => {
  const itemOf = async (
    limiter: { policies: Policies; take(key: string, cost?: number): Promise<Decision> },
    cost = 1,
  ) => {
    const { RateLimit } = written('draft-11', limiter.policies, await limiter.take('ann', cost))
    return RateLimit
  }

  test('ends with the window', async () => {
    const { limiter, clock } = limiterOf(fixedWindow({ limit: 5, window: '1m' }))
    expect(await itemOf(limiter)).toBe('"default";r=4;t=60')
    clock.advance(20_000)
    expect(await itemOf(limiter)).toBe('"default";r=3;t=40')
    expect(await itemOf(limiter, 4)).toBe('"default";r=3;t=40')
  })

  test('is the whole window of a fresh key', async () => {
    for (const policy of [fixedWindow({ limit: 5, window: '1m' }), gcra({ limit: 5, period: '1m' })]) {
      const { limiter } = limiterOf(policy)
      const decision = await limiter.peek('ann', 1)
      expect(written('draft-11', limiter.policies, decision)).toMatchObject({ RateLimit: '"default";r=5;t=60' })
      expect(written('draft-8', limiter.policies, decision)).toMatchObject({ RateLimit: '"default";r=5;t=0' })
    }
  })

  test.each<[string, Policy]>([
    ['gcra', gcra({ limit: 10, period: '20s', burst: 20 })],
    ['tokenBucket', tokenBucket({ capacity: 20, refill: { tokens: 1, every: '2s' } })],
    ['leakyBucket', leakyBucket({ capacity: 20, leak: { units: 1, every: '2s' } })],
  ])('never promises more than the rate of %s, and shows when the next unit comes', async (_, policy) => {
    const { limiter, clock } = limiterOf(policy)
    const items: (string | undefined)[] = []
    for (const [wait, cost] of [
      [0, 1],
      [500, 1],
      [0, 17],
      [0, 1],
      [1_000, 1],
    ] as const) {
      clock.advance(wait)
      items.push(await itemOf(limiter, cost))
    }
    expect(items).toEqual([
      '"default";r=19;t=38', // 2 s for each unit
      '"default";r=18;t=36',
      '"default";r=1;t=2',
      '"default";r=0;t=2', // one unit in 1.5 s
      '"default";r=0;t=1', // refused: 0.5 s
    ])
  })

  test('is the reset under a rate that only an override knows', async () => {
    const { limiter } = limiterOf(gcra({ limit: 10, period: '20s', burst: 20 }))
    await limiter.override('ann', { limit: 100, burst: 50 }, { ttl: '1h' })
    expect(await itemOf(limiter, 5)).toBe('"default";r=45;t=1')
  })

  test('is longer for the embedded share of a rate', async () => {
    const { limiter } = limiterOf(gcra({ limit: 10, period: '20s', burst: 20 }))
    const half = limiterOf(gcra({ limit: 5, period: '20s', burst: 10 })).limiter
    const decision = { ...(await half.take('ann')), source: 'fallback' } as Decision
    expect(written('draft-11', limiter.policies, decision)).toMatchObject({ RateLimit: '"default";r=9;t=36' })
  })

  test('is the end of a block', async () => {
    const { limiter } = limiterOf(gcra({ limit: 10, period: '20s', burst: 20 }))
    await limiter.block('ann', '1h')
    expect(await itemOf(limiter)).toBe('"default";r=0;t=3600')
  })
})
