import { runInNewContext } from 'node:vm'
import { OutgoingClient } from '../../ts/client/index.js'
import { concurrency, fixedWindow, gcra, MemoryStore, RateLimiter, TollgateError, tokenBucket } from '../../ts/index.js'
import { anything, failureOf, rejectionOf } from '../failure.js'

const limiter = () => new RateLimiter(gcra({ limit: 10, period: '1s' }))

describe('policies', () => {
  const rule = 'must be a whole number from 1 to 2^53 - 1'
  const bad = [NaN, Infinity, -1, 0, 0.5, 2 ** 53, '10', null, undefined, {}, [], 10n, true]

  test.each(bad)('a limit of %p: the error names the option, the value and the rule', (limit) => {
    const error = failureOf(() => gcra({ limit: anything(limit), period: '1s' }))
    expect(error).toMatchObject({ code: 'INVALID_POLICY', charged: false })
    expect(error.message).toMatch(`gcra: limit ${rule}, got `)
    expect(failureOf(() => fixedWindow({ limit: anything(limit), window: '1s' })).message).toMatch(rule)
    const refill = { tokens: 1, every: 1 }
    expect(failureOf(() => tokenBucket({ capacity: anything(limit), refill })).message).toMatch(rule)
    const tokens = { tokens: anything(limit), every: 1 }
    expect(failureOf(() => tokenBucket({ capacity: 1, refill: tokens })).message).toMatch(rule)
  })

  const badLengths = [
    NaN,
    Infinity,
    -1,
    0,
    0.0001,
    1.00005,
    '',
    '10',
    's',
    '10  s',
    '10 fortnights',
    '-1s',
    '1e3s',
    '1M',
    '1y',
    '٣s',
    null,
    {},
    10n,
  ]

  test.each([...badLengths, '0s'])('a length of %p: the error names the option, the value and the rule', (length) => {
    const error = failureOf(() => gcra({ limit: 1, period: anything(length) }))
    expect(error.code).toBe('INVALID_POLICY')
    expect(error.message).toMatch(/^gcra: period must be a duration above 0 in whole microseconds.*, got /)
    expect(() => fixedWindow({ limit: 1, window: anything(length) })).toThrow(/fixedWindow: window must be/)
    const refill = { tokens: 1, every: anything(length) }
    expect(() => tokenBucket({ capacity: 1, refill })).toThrow(/tokenBucket: refill.every must be/)
  })

  test('errors name unknown, missing and misplaced options', () => {
    expect(failureOf(() => gcra(anything({ limit: 1, period: 1, brust: 2 }))).message).toBe(
      'gcra has no option "brust"; did you mean "burst"? It takes limit, period, burst, per, meter, defaultCost, maxOwed',
    )
    expect(failureOf(() => gcra(anything({ limit: 1 }))).message).toMatch(/period must be .* got undefined/)
    expect(failureOf(() => gcra(anything(undefined))).message).toMatch(/gcra takes an object of options/)
    expect(failureOf(() => fixedWindow(anything([1, 2]))).message).toMatch(/takes an object .* got an array/)
    expect(failureOf(() => tokenBucket(anything({ capacity: 1, refill: 5 }))).message).toMatch(/refill takes an object/)
  })

  test('numbers too large for exact counting are refused when the limiter is made', () => {
    const error = failureOf(() => new RateLimiter(gcra({ limit: 2 ** 53 - 1, period: 1 })))
    expect(error.code).toBe('INVALID_POLICY')
    expect(error.message).toMatch(/^gcra: burst is too large to count exactly .* must be below 2\^53/)
    const ages = failureOf(
      () => new RateLimiter(tokenBucket({ capacity: 200_000, refill: { tokens: 1, every: '1d' } })),
    )
    expect(ages.message).toMatch(/^tokenBucket: capacity must refill from empty within 2\^52 µs \(142 years\)/)
    const long = failureOf(() => new RateLimiter(fixedWindow({ limit: 1, window: `${1e6}d` })))
    expect(long.message).toMatch(/^fixedWindow: window must be .* at most 2\^52 µs \(142 years\)/)
  })

  test.each([
    undefined,
    null,
    5,
    'gcra',
    {},
    { algorithm: 'leaky' },
    { algorithm: '__proto__' },
    { algorithm: 'toString' },
    [],
  ])('no policy: %p', (policy) => {
    expect(failureOf(() => new RateLimiter(anything(policy))).code).toBe('INVALID_POLICY')
  })

  test('a hand-written policy is checked like one from a factory', () => {
    const made = new RateLimiter({ algorithm: 'gcra', limit: 5, period: 1_000, burst: 5 })
    expect(made.takeSync('a').remaining).toBe(4)
    const bad = { algorithm: 'gcra', limit: 5, period: 1_000, burst: -1 } as const
    expect(failureOf(() => new RateLimiter(bad)).message).toMatch(/gcra: burst must be/)
  })
})

describe('options', () => {
  test('a limiter', () => {
    const policy = gcra({ limit: 1, period: 1 })
    const of = (options: unknown) => failureOf(() => new RateLimiter(policy, anything(options)))
    expect(of({ sotre: 1 })).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining('"sotre"') })
    expect(of(5).message).toMatch(/RateLimiter takes an object/)
    expect(of({ store: {} }).message).toBe('store must be a MemoryStore, a RedisStore or a Redis URL, got an object')
    expect(of({ store: null }).message).toBe('store must be a MemoryStore, a RedisStore or a Redis URL, got null')
    for (const prefix of ['', '1a', 'a b', 'a{b}', ':a', 'a:', 'a:ö', 'x'.repeat(65), 5, null]) {
      expect(of({ prefix })).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^prefix must match/),
      })
    }
  })

  test('a memory store', () => {
    const of = (options: unknown) => failureOf(() => new MemoryStore(anything(options)))
    for (const maxKeys of [0, -1, 1.5, NaN, '5', 2 ** 33]) {
      expect(of({ maxKeys })).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^maxKeys must be/),
      })
    }
    expect(of({ clock: 5 }).message).toBe(
      'clock must be a function that returns milliseconds, or a TestClock of tollgate/testing, got 5',
    )
    expect(of({ name: '' }).message).toMatch(/^name must match/)
    expect(of({ maxkeys: 5 }).message).toBe(
      'MemoryStore has no option "maxkeys"; did you mean "maxKeys"? It takes maxKeys, clock, name',
    )
    expect(of(null).message).toMatch(/MemoryStore takes an object/)
  })

  test.each([NaN, Infinity, -1, 2 ** 52, '5', undefined, null, {}, 5n])('a clock that returns %p', async (time) => {
    const store = new MemoryStore({ clock: () => anything(time) })
    const made = new RateLimiter(gcra({ limit: 1, period: 1 }), { store })
    const error = failureOf(() => made.takeSync('a'))
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toMatch(/^clock must return epoch milliseconds from 0 to \d+(\.\d+)?, got /)
    await expect(made.take('a')).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(made.takeMany(['a'])).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(made.reset('a')).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

test('a clock that throws', () => {
  const cause = new Error('no time')
  const clock = () => {
    throw cause
  }
  const made = new RateLimiter(gcra({ limit: 1, period: 1 }), { store: new MemoryStore({ clock }) })
  const error = failureOf(() => made.takeSync('a'))
  expect(error).toMatchObject({ code: 'INVALID_OPTION', message: 'clock must return epoch milliseconds, but it threw' })
  expect(error.cause).toBe(cause)
})

describe('keys', () => {
  const noStrings = [undefined, null, 5, NaN, {}, [], Symbol('a'), true, 10n, () => 'a', new String('a')]

  test.each(noStrings)('%p is not a key', async (key) => {
    const of = limiter()
    expect(failureOf(() => of.takeSync(anything(key)))).toMatchObject({
      code: 'INVALID_KEY',
      charged: false,
      message: expect.stringMatching(/^key must be a string, got /),
    })
    await expect(of.take(anything(key))).rejects.toMatchObject({ code: 'INVALID_KEY' })
    await expect(of.peek(anything(key))).rejects.toMatchObject({ code: 'INVALID_KEY' })
    await expect(of.reset(anything(key))).rejects.toMatchObject({ code: 'INVALID_KEY' })
    await expect(of.takeMany([anything(key)])).rejects.toMatchObject({ code: 'INVALID_KEY' })
  })

  test('empty, too long and ill-formed strings are not keys', () => {
    const message = (key: string) => failureOf(() => limiter().takeSync(key)).message
    expect(message('')).toBe('key must not be empty')
    expect(message('x'.repeat(2_048))).toBe('key must be at most 1024 bytes of UTF-8, got 2048')
    expect(message('x'.repeat(1_025))).toBe('key must be at most 1024 bytes of UTF-8, got 1025')
    expect(message('é'.repeat(513))).toBe('key must be at most 1024 bytes of UTF-8, got 1026')
    expect(message('👩'.repeat(257))).toBe('key must be at most 1024 bytes of UTF-8, got 1028')
    expect(message('x'.repeat(10_000_000))).toMatch(/got 10000000$/)
    for (const lone of ['\ud800', 'a\udc00', '\ud83d', `${'x'.repeat(1_000)}\udfff`, '\udc00\ud800']) {
      expect(message(lone)).toBe('key must be a well-formed string, got one with a lone surrogate')
    }
  })

  test('every other string is a distinct key', () => {
    const of = new RateLimiter(gcra({ limit: 1, period: '1h' }))
    const keys = [
      ...['\0', '\0\0', 'a\0', 'a', 'A', ' ', 'a ', '{a}', 'a}', '%', '%7B', '__proto__', 'constructor', 'toString'],
      ...[
        '\ufffd',
        '\ufffd\ufffd',
        '👩‍👩‍👧',
        '👩',
        'é',
        'e\u0301',
        // If their upper bytes were dropped, these would equal A, a and NUL.
        '\u0141',
        '\u0161',
        '\u0100',
        '\n',
        '\u2028',
        'user:1',
        'user',
        '\ufeff',
        '\uffff',
      ],
      ...['x'.repeat(1_024), 'é'.repeat(512), '👩'.repeat(256), 'x'.repeat(23), 'x'.repeat(24), 'x'.repeat(25)],
    ]
    for (const key of keys) {
      expect(of.takeSync(key).allowed).toBe(true)
    }
    for (const key of keys) {
      expect(of.takeSync(key).allowed).toBe(false)
    }
    expect(of.takeSync(`${'x'.repeat(10)}${'x'.repeat(13)}`).allowed).toBe(false)
  })

  // promise: all-or-none
  test('a failed takeMany reports the result of every key', async () => {
    const of = new RateLimiter(fixedWindow({ limit: 1, window: '1h' }))
    const error = await rejectionOf(of.takeMany(['a', '', 'b', anything(7)]))
    expect(error).toMatchObject({
      code: 'INVALID_KEY',
      message: '2 of 4 keys failed, the first because key must not be empty',
      cause: { message: 'key must not be empty' },
      results: [{ allowed: true }, { code: 'INVALID_KEY' }, { allowed: true }, { code: 'INVALID_KEY' }],
      charged: true,
    })
    await expect(of.takeMany(anything('abc'))).rejects.toMatchObject({ code: 'INVALID_KEY' })
    await expect(of.takeMany(anything({ length: 1 }))).rejects.toMatchObject({ code: 'INVALID_KEY' })
  })
})

describe('costs', () => {
  const bad = [NaN, Infinity, -1, 0.5, 2 ** 53, '1', null, true, 5n, []]

  test.each([...bad, 0])('%p is not a cost', async (cost) => {
    const of = limiter()
    const error = failureOf(() => of.takeSync('a', anything(cost)))
    expect(error).toMatchObject({ code: 'INVALID_COST', charged: false })
    expect(error.message).toMatch(/^cost must be a whole number from 1 to 2\^53 - 1, got /)
    expect(failureOf(() => of.takeSync('a', { cost: anything(cost) })).code).toBe('INVALID_COST')
    await expect(of.take('a', anything(cost))).rejects.toMatchObject({ code: 'INVALID_COST' })
    await expect(of.takeMany(['a'], [anything(cost)])).rejects.toMatchObject({ code: 'INVALID_COST' })
    expect((await of.peek('a', 0)).remaining).toBe(10)
  })

  test.each(bad)('peek: %p is not a cost', async (cost) => {
    await expect(limiter().peek('a', anything(cost))).rejects.toMatchObject({ code: 'INVALID_COST' })
  })

  test('unknown call options, and a number of costs that differs from the number of keys', async () => {
    const error = failureOf(() => limiter().takeSync('a', anything({ costs: 1 })))
    expect(error).toMatchObject({
      code: 'INVALID_OPTION',
      message: 'take has no option "costs"; did you mean "cost"? It takes cost, tag, tier, id, idTtl',
    })
    expect(limiter().takeSync('a', {}).remaining).toBe(9)
    await expect(limiter().takeMany(['a', 'b'], [1])).rejects.toMatchObject({
      code: 'INVALID_COST',
      message: 'costs must have a cost for each of the 2 keys, got 1',
    })
  })

  class Options {
    readonly cost = 5
  }

  test.each([
    ['a Promise: await it', Promise.resolve(5)],
    ['a Number', new Number(5)],
    ['a Date', new Date()],
    ['a Map', new Map([['cost', 5]])],
    ['a Set', new Set([5])],
    ['an Error', new Error('no cost')],
    ['an object', new Options()],
    ['an object', Object.create({ cost: 5 })],
  ])('%s is not a cost, and no options either', async (got, cost) => {
    const of = limiter()
    const rates = new RateLimiter(gcra({ limit: 10, period: '1h' }))
    const permits = new RateLimiter(concurrency({ limit: 10 }))
    await using client = new OutgoingClient({ limiter: rates, key: 'a' })
    const decision = await of.take('refunded', 5)
    const given = anything(cost) as never
    const [one, keys] = [{ cost: given }, ['a', 'b']]
    const calls: readonly (readonly [string, () => unknown])[] = [
      ['cost', () => of.take('a', given)],
      ['cost', () => of.take('a', one)],
      ['cost', async () => of.takeSync('a', given)],
      ['cost', () => of.tryTake('a', given)],
      ['cost', () => of.takeMany(keys, given)],
      ['cost', () => of.takeMany(keys, one)],
      ['cost', () => of.takeMany(keys, [given, 1])],
      ['cost', () => of.peek('a', given)],
      ['cost', () => rates.wait('a', one)],
      ['cost', () => permits.acquire('a', one)],
      ['cost', () => client.schedule(() => 'ran', { key: 'a', ...one })],
      ['units', () => of.takeUpTo('a', given)],
      ['units', () => of.penalize('a', given)],
      ['units', () => of.reserve('a', given)],
      ['units', () => of.refund(decision, given)],
    ]
    for (const [name, call] of calls) {
      const message = `${name} must be a whole number from ${call.toString().includes('peek') ? 0 : 1} to 2^53 - 1, got ${got}`
      await expect(call()).rejects.toMatchObject({ code: 'INVALID_COST', charged: false, message })
    }
    for (const used of [of, rates, permits]) {
      expect((await used.peek('a', 0)).remaining).toBe(10)
    }
  })

  test('a promise or a Map is no object of options, and a class with options is one', async () => {
    const options = anything(Promise.resolve({ prefix: 'api' })) as never
    expect(failureOf(() => new RateLimiter(gcra({ limit: 1, period: '1s' }), options)).message).toMatch(
      /got a Promise: await it$/,
    )
    const rates = new RateLimiter(gcra({ limit: 10, period: '1h' }))
    await expect(rates.wait('a', options)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(rates.reserve('a', 1, anything(new Map()) as never)).rejects.toThrow('got a Map')
    expect(await rates.wait('a', new Options())).toMatchObject({ remaining: 5 })
    expect(await rates.take('a', Object.assign(Object.create(null), { cost: 2 }))).toMatchObject({ remaining: 3 })
  })

  test('options of another realm are options', async () => {
    expect(await limiter().take('a', runInNewContext('({ cost: 4 })'))).toMatchObject({ remaining: 6 })
  })

  test('the largest cost is accepted', () => {
    expect(limiter().takeSync('a', Number.MAX_SAFE_INTEGER).status).toBe('impossible')
  })
})

test('TollgateError.is recognizes errors from another copy of the package', () => {
  const error = failureOf(() => limiter().takeSync(''))
  expect(error).toBeInstanceOf(Error)
  expect(TollgateError.is(error)).toBe(true)
  expect(TollgateError.is({ [Symbol.for('tollgate.error')]: true })).toBe(true)
  expect([new Error('x'), null, undefined, 'x'].some(TollgateError.is)).toBe(false)
})
