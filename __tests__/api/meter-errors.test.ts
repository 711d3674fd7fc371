/** The messages for wrong meters and for costs that do not suit them. */
import { runInNewContext } from 'node:vm'
import { concurrency, fixedWindow, gcra, RateLimiter, tiers } from '../../ts/index.js'
import { anything, rejectionOf } from '../failure.js'

const failed = (run: () => unknown) => rejectionOf((async () => run())())

const policies = {
  requests: gcra({ limit: 100, period: '1m' }),
  tokens: gcra({ limit: 1_000, period: '1m', meter: 'tokens' }),
  spend: gcra({ limit: 50, period: '1m', meter: 'cents', defaultCost: 0 }),
}

// Programs in JavaScript pass what the types forbid.
const limiter = new RateLimiter(policies) as unknown as {
  readonly [method: string]: (...args: unknown[]) => Promise<unknown>
}

test.each([
  [
    'take',
    ['a'],
    'cost must have the units of each meter, tokens is missing; write cost: { tokens: 5 }, or give the policies of "tokens" a defaultCost',
  ],
  ['take', ['a', { cost: { cents: 1 } }], 'cost must have the units of each meter, tokens is missing'],
  [
    'take',
    ['a', 5],
    'cost must be an object by meter, because a policy has a meter, got 5: write take(key, { cost: { tokens: 5 } })',
  ],
  [
    'take',
    ['a', { cost: 5 }],
    'cost must be an object by meter, because a policy has a meter, got 5: write cost: { tokens: 5 }',
  ],
  [
    'take',
    ['a', { cost: { token: 5 } }],
    'cost: no policy has the meter "token"; did you mean "tokens"? The meters are calls, tokens, cents',
  ],
  [
    'take',
    ['a', { cost: { tokens: 5, bytes: 1 } }],
    'cost: no policy has the meter "bytes"; the meters are calls, tokens, cents',
  ],
  ['take', ['a', { cost: { tokens: -1 } }], 'cost.tokens must be a whole number from 0 to 2^53 - 1, got -1'],
  ['take', ['a', { cost: { tokens: 1.5 } }], 'cost.tokens must be a whole number from 0 to 2^53 - 1, got 1.5'],
  ['take', ['a', { cost: Promise.resolve({ tokens: 5 }) }], 'got a Promise: await it'],
  [
    'takeMany',
    [
      ['a', 'b'],
      [{ tokens: 5 }, 5],
    ],
    'cost must be an object by meter, because a policy has a meter, got 5',
  ],
  ['takeMany', [['a', 'b'], [{ tokens: 5 }]], 'costs must have a cost for each of the 2 keys, got 1'],
  ['peek', ['a', { cost: {} }], 'tokens is missing'],
  [
    'penalize',
    ['a'],
    'units must be an object by meter, because a policy has a meter, got undefined: write units: { tokens: 5 }',
  ],
  ['penalize', ['a', {}], 'units must have the units of at least one meter; write { tokens: 5 }'],
  [
    'reserve',
    ['a', 5],
    'units must be an object by meter, because a policy has a meter, got 5: write units: { tokens: 5 }',
  ],
  ['reserve', ['a', { tokens: 0, calls: 0 }], 'units must be 1 or more of at least one meter; write { tokens: 5 }'],
  ['wait', ['a', { cost: 5 }], 'cost must be an object by meter, because a policy has a meter, got 5'],
])('%s(%j): INVALID_COST', async (method, args, message) => {
  const error = await failed(() => limiter[method]?.(...args))
  expect(error.code).toBe('INVALID_COST')
  expect(error.message).toContain(message)
})

/** Objects whose own properties are not all that a reader sees in them. */
const notPlain: readonly (readonly [shown: string, value: object])[] = [
  ['a Map', new Map([['tokens', 500]])],
  ['a Set', new Set([500])],
  ['a Date', new Date()],
  ['a Number', new Number(500)],
  ['a String', new String('500')],
  ['a Headers', new Headers({ tokens: '500' })],
  ['a URLSearchParams', new URLSearchParams('tokens=500')],
  ['an array', [500]],
  ['an object', Object.create({ tokens: 500 })],
  [
    'an object',
    new (class {
      readonly tokens = 500
      get cents() {
        return 500
      }
    })(),
  ],
]

describe('a cost that is no plain object', () => {
  test.each(notPlain)('%s is refused by all methods, and charges nothing', async (name, value) => {
    const limiter = new RateLimiter({
      calls: fixedWindow({ limit: 1_000, window: '1h' }),
      tokens: fixedWindow({ limit: 1_000, window: '1h', meter: 'tokens', defaultCost: 1 }),
      spend: fixedWindow({ limit: 1_000, window: '1h', meter: 'cents', defaultCost: 0 }),
    })
    const pool = new RateLimiter({ open: concurrency({ limit: 5, meter: 'tokens', defaultCost: 1 }) })
    const bucket = new RateLimiter(gcra({ limit: 1_000, period: '1h', meter: 'tokens', defaultCost: 1 }))
    const wrong = anything(value)
    const reservation = await limiter.reserve('a', { tokens: 7 })
    if (!reservation.allowed) {
      throw new Error('it was refused')
    }
    const decision = await limiter.take('a', { cost: { tokens: 3 } })
    const calls: (readonly [option: string, call: () => unknown])[] = [
      ['cost', () => limiter.take('a', { cost: wrong })],
      ['cost', () => limiter.takeSync('a', { cost: wrong })],
      ['cost', () => limiter.tryTake('a', { cost: wrong })],
      ['cost', () => limiter.takeMany(['a'], { cost: wrong })],
      ['cost', () => limiter.takeMany(['a'], [wrong])],
      ['cost', () => limiter.peek('a', { cost: wrong })],
      ['cost', () => bucket.wait('a', { cost: wrong })],
      ['cost', () => pool.acquire('a', { cost: wrong })],
      ['units', () => limiter.reserve('a', wrong)],
      ['units', () => limiter.penalize('a', wrong)],
      ['units', () => limiter.refund(decision, wrong)],
      ['units', () => reservation.extend(wrong)],
      ['actual', () => reservation.commit(wrong)],
      ['actual', () => limiter.settle(reservation.id, wrong)],
    ]
    for (const [option, call] of calls) {
      const { code, message } = await failed(call)
      expect(code).toBe('INVALID_COST')
      const rule = 'must be a plain object by meter, because a policy has a meter'
      expect(message).toContain(`${option} ${rule}, got ${name}: write ${option}: { tokens: 5`)
    }
    expect((await limiter.peek('a', { cost: { tokens: 0 } })).policies).toMatchObject({ tokens: { used: 10 } })
  })

  test('objects without a class, of any realm, are plain', async () => {
    const limiter = new RateLimiter(fixedWindow({ limit: 1_000, window: '1h', meter: 'tokens', defaultCost: 1 }))
    const plain = [{ tokens: 5 }, Object.assign(Object.create(null), { tokens: 5 }), runInNewContext('({ tokens: 5 })')]
    for (const cost of plain) {
      await limiter.take('a', { cost })
    }
    expect(await limiter.peek('a', { cost: { tokens: 0 } })).toMatchObject({ used: 15 })
  })
})

test.each([
  ['take', ['a', { tokens: 5 }], 'take has no option "tokens"'],
  ['take', ['a', { tokens: 5 }], 'write take(key, { cost: { tokens: … } })'],
  [
    'takeUpTo',
    ['a', 5],
    'takeUpTo cannot be used with policies that have a meter: use take(key, { cost: { tokens: 5 } })',
  ],
])('%s(%j): INVALID_OPTION', async (method, args, message) => {
  const error = await failed(() => limiter[method]?.(...args))
  expect(error.code).toBe('INVALID_OPTION')
  expect(error.message).toContain(message)
})

test('a cost by meter needs a policy with a meter', async () => {
  const plain = new RateLimiter(policies.requests)
  const fix = "no policy has a meter: write cost: 5, or meter: 'tokens' in a policy"
  const take = await failed(() => plain.take('a', { cost: { tokens: 5 } } as never))
  expect(take).toMatchObject({
    code: 'INVALID_COST',
    message: `cost must be a whole number from 1 to 2^53 - 1, got an object: ${fix}`,
  })
  const many = await failed(() => plain.takeMany(['a'], [{ tokens: 5 }] as never))
  expect(many.message).toContain(fix)
  const units = await failed(() => plain.penalize('a', { tokens: 5 } as never))
  expect(units.message).toContain('write units: 5')
})

test('names of meters and default costs are checked at once', async () => {
  const make = (options: object) => failed(() => gcra({ limit: 1, period: '1s', ...options }))
  expect(await make({ meter: '5' })).toMatchObject({ code: 'INVALID_POLICY' })
  expect((await make({ meter: 'a b' })).message).toContain('gcra: meter must match')
  expect((await make({ meter: 5 })).message).toContain('gcra: meter must match')
  expect((await make({ meter: 'a', defaultCost: -1 })).message).toContain(
    'gcra: defaultCost must be a whole number from 0 to 2^53 - 1, got -1',
  )
  const needsMeter = "gcra: defaultCost needs a meter, as in { meter: 'tokens', defaultCost: 5 }"
  expect((await make({ defaultCost: 1 })).message).toContain(needsMeter)
  expect((await make({ defaultCost: 1, meter: 'calls' })).message).toContain(needsMeter)
  expect((await make({ meters: 'tokens' })).message).toContain('did you mean "meter"?')
})

test('policies keep their meter in their data, and only if it is given', () => {
  expect('meter' in policies.requests || 'defaultCost' in policies.requests).toBe(false)
  expect(JSON.parse(JSON.stringify(policies.spend))).toMatchObject({ meter: 'cents', defaultCost: 0 })
  const copied = new RateLimiter(JSON.parse(JSON.stringify(policies)) as typeof policies)
  expect(copied.policies).toEqual(policies)
})

test("the meter 'calls' is that of policies without a meter", async () => {
  const limiter = new RateLimiter(gcra({ limit: 10, period: '1m', meter: 'calls' }))
  expect(await limiter.take('a', 3)).toMatchObject({ remaining: 7 })
  const both = { free: gcra({ limit: 1, period: '1m' }), pro: gcra({ limit: 2, period: '1m', meter: 'calls' }) }
  expect(() => new RateLimiter(tiers(both))).not.toThrow()
})

test('policies of one meter have one default cost', async () => {
  const window = (defaultCost: number) => fixedWindow({ limit: 5, window: '1h', meter: 'tokens', defaultCost })
  const error = await failed(() => new RateLimiter({ a: window(1), b: window(2) }))
  expect(error).toMatchObject({
    code: 'INVALID_POLICY',
    message: 'policies: defaultCost must be the same for all policies of the meter "tokens", got 1 in a and 2 in b',
  })
  // One of them is enough.
  const limiter = new RateLimiter({ a: window(1), b: fixedWindow({ limit: 9, window: '1h', meter: 'tokens' }) })
  expect(limiter.takeSync('a').policies.b.remaining).toBe(8)
})

test('tiers have one meter', async () => {
  const [free, pro] = [gcra({ limit: 1, period: '1m', meter: 'tokens' }), gcra({ limit: 2, period: '1m' })]
  expect(await failed(() => tiers({ free, pro }))).toMatchObject({
    code: 'INVALID_POLICY',
    message: 'tiers must differ in numbers only: meter is "tokens" in free and "calls" in pro; use a limiter for each',
  })
})

test('leases need policies without meters', async () => {
  const make = (local: object) => () => new RateLimiter(policies, { store: 'redis://localhost', prefix: 'a', local })
  for (const local of [{ lease: '100ms' }, { lease: '100ms', refusals: '1s' }] as const) {
    expect(await failed(make(local))).toMatchObject({
      code: 'INVALID_OPTION',
      message:
        'local.lease cannot be used with policies that have a meter: a lease has the same units under all policies; ' +
        'use local: { refusals }',
    })
  }
  await make({ refusals: '1s' })().close()
})

test('a meter may have the name of an option, or of a property of all objects', async () => {
  const named = new RateLimiter({
    cost: gcra({ limit: 10, period: '1h', meter: 'cost' }),
    other: gcra({ limit: 10, period: '1h', meter: 'toString' }),
  })
  expect(named.takeSync('a', { cost: { cost: 3, toString: 4 } }).policies).toMatchObject({
    cost: { remaining: 7 },
    other: { remaining: 6 },
  })
  const error = await failed(() => named.take('a', { cost: { cost: 3 } as never }))
  expect(error.message).toContain('toString is missing')
})

test('a permit holds at least one unit of concurrency', async () => {
  const tokens = gcra({ limit: 10, period: '1h', meter: 'tokens' })
  const permits = new RateLimiter({ running: concurrency({ limit: 5 }), tokens })
  const error = await failed(() => permits.acquire('a', { cost: { tokens: 1, calls: 0 } }))
  expect(error).toMatchObject({
    code: 'INVALID_COST',
    message: expect.stringContaining('cost.calls must be a whole number from 1 to 2^53 - 1: a permit holds units of'),
  })
  expect(await permits.acquire('a', { cost: { tokens: 0 } })).toMatchObject({ allowed: true })
})

test('acquire checks its cost', async () => {
  const permits = new RateLimiter(concurrency({ limit: 5, meter: 'megabytes' }))
  const error = await failed(() => permits.acquire('a', { cost: 5 } as never))
  expect(error).toMatchObject({ code: 'INVALID_COST' })
})
