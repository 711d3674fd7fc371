import { fixedWindow, gcra, MemoryStore, type Policy, RateLimiter, slidingLog } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { anything, failureOf } from '../failure.js'

const three = gcra({ limit: 3, period: '1h' })

describe('several policies', () => {
  const failing = (policies: unknown) => failureOf(() => new RateLimiter(anything(policies)))
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, three]))

  test.each([
    [{}, 'policies must be an object of 1 to 8 by name, got 0'],
    [many(9), 'policies must be an object of 1 to 8 by name, got 9'],
    [{ a: 5 }, 'policies.a must be made by '],
    [{ a: three, b: undefined }, 'policies.b must be made by '],
    [{ a: { algorithm: 'leaky' } }, 'algorithm must be one of '],
    [{ algorithm: 5 }, 'policies.algorithm must be made by '],
    [{ '1a': three }, 'policies: the name of a policy must match '],
    [{ 'a b': three }, 'policies: the name of a policy must match '],
    [{ ['x'.repeat(33)]: three }, 'policies: the name of a policy must match '],
    [5, 'policy must be made by '],
    [[three], 'policy must be made by '],
  ])('%#: %p are not valid policies', (policies, message) => {
    const error = failing(policies)
    expect(error).toMatchObject({ code: 'INVALID_POLICY', message: expect.stringContaining(message) })
  })

  test('a policy may have any name that follows the rule', () => {
    const limiter = new RateLimiter({ algorithm: three, constructor: three, toString: three })
    expect(limiter.takeSync('a')).toMatchObject({ policy: 'algorithm', policies: { toString: { remaining: 2 } } })
  })

  test('no policy of a set can count refused calls', () => {
    const counting = fixedWindow({ limit: 3, window: '1h', countRefused: true })
    expect(failing({ a: three, b: counting })).toMatchObject({
      code: 'INVALID_POLICY',
      message: expect.stringMatching(/^policies\.b: countRefused cannot be used among several policies/),
    })
  })

  test('all policies have a per, or none', () => {
    expect(failing({ a: gcra({ limit: 1, period: 1, per: 'ip' }), b: three })).toMatchObject({
      code: 'INVALID_POLICY',
      message: 'policies: per must be given for all policies or for none: "b" has none',
    })
    expect(failureOf(() => gcra({ limit: 1, period: 1, per: anything('a b') })).message).toMatch(
      /^gcra: per must match /,
    )
  })

  test('at most 16 limits, each with a unique name', () => {
    const limit = (index: number) => [`l${index}`, { limit: index, window: index }] as const
    const logs = slidingLog({ limits: Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8].map(limit)) })
    expect(new RateLimiter({ a: logs, b: logs }).takeSync('a').allowed).toBe(true)
    expect(failing({ a: logs, b: logs, c: three })).toMatchObject({
      code: 'INVALID_POLICY',
      message: 'policies must have at most 16 limits, counting each limit of a slidingLog, got 17',
    })
    const one = slidingLog({ limits: { b: { limit: 1, window: 1 } } })
    expect(failing({ a: one, 'a.b': three }).message).toBe(
      'policies must give each limit a unique name, got "a.b" twice',
    )
  })

  test('errors name numbers that are too large for exact counting', () => {
    const large = gcra({ limit: 2 ** 53 - 1, period: 1 })
    expect(failing({ a: three, b: large }).message).toMatch(/^policies\.b: gcra: burst is too large to count exactly/)
  })

  test('other policies under an open prefix are refused', () => {
    const store = new MemoryStore()
    const open = (policies: { readonly [name: string]: Policy }) => new RateLimiter(policies, { store, prefix: 'api' })
    open({ a: three, b: three })
    expect(open({ a: three, b: three }).takeSync('x').allowed).toBe(true)
    expect(failureOf(() => open({ a: three, c: three }))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^prefix "api" is in use/),
    })
  })
})

describe('keys of several parts', () => {
  const limiter = () =>
    new RateLimiter({
      ip: gcra({ limit: 3, period: '1h', per: 'ip' }),
      account: gcra({ limit: 3, period: '1h', per: 'account' }),
      all: gcra({ limit: 3, period: '1h', per: 'global' }),
    })

  test.each([
    ['a', 'key must be an object: { ip, account }, got "a"'],
    [undefined, 'key must be an object: { ip, account }, got undefined'],
    [null, 'key must be an object: { ip, account }, got null'],
    [['1', 'a'], 'key must be an object: { ip, account }, got an array'],
    [{ ip: '1' }, 'key.account must be a string, got undefined'],
    [{ ip: '1', account: 5 }, 'key.account must be a string, got number: convert it with String()'],
    [{ ip: '', account: 'a' }, 'key.ip must not be empty'],
    [{ ip: 'x'.repeat(1_025), account: 'a' }, 'key.ip must be at most 1024 bytes of UTF-8, got 1025'],
    [{ ip: 'é'.repeat(513), account: 'a' }, 'key.ip must be at most 1024 bytes of UTF-8, got 1026'],
    [{ ip: '1', account: 'a\ud800' }, 'key.account must be a well-formed string, got one with a lone surrogate'],
    [{ ip: '1', account: 'a', acount: 'b' }, 'key has no part "acount"; it is { ip, account }'],
    [{ ip: '1', account: 'a', global: true }, 'key has no part "global"; it is { ip, account }'],
  ])('%#: the error for a wrong key names the part and the rule', async (key, message) => {
    const of = limiter()
    const error = failureOf(() => of.takeSync(anything(key)))
    expect(error).toMatchObject({ code: 'INVALID_KEY', charged: false, message })
    const failed = { code: 'INVALID_KEY', message }
    await expect(of.take(anything(key))).rejects.toMatchObject(failed)
    await expect(of.peek(anything(key))).rejects.toMatchObject(failed)
    await expect(of.penalize(anything(key))).rejects.toMatchObject(failed)
    await expect(of.takeUpTo(anything(key), 1)).rejects.toMatchObject(failed)
    await expect(of.takeMany([anything(key)])).rejects.toMatchObject({ code: 'INVALID_KEY' })
    expect((await of.peek({ ip: '1', account: 'a' }, 0)).policies.all.remaining).toBe(3)
  })

  test('the longest and strangest parts are valid keys', () => {
    for (const ip of ['x'.repeat(1_024), '👩'.repeat(256), '\0', '__proto__', '\ufffd', 'global']) {
      expect(limiter().takeSync({ ip, account: ip }).policies.ip.remaining).toBe(2)
    }
  })

  test('at least one of the parts is required', async () => {
    const of = limiter()
    const failed = (key: unknown) => of.block(anything(key), '1h').catch(({ code, message }) => [code, message])
    expect(await failed({})).toEqual(['INVALID_KEY', 'key must name at least one of ip, account, global'])
    expect(await failed({ ip: undefined })).toEqual(['INVALID_KEY', 'key.ip must be a string, got undefined'])
    expect(await failed({ global: 'x' })).toEqual([
      'INVALID_KEY',
      'key.global must be true: the global dimension has no key, got "x"',
    ])
    expect(await failed({ id: 'x' })).toEqual(['INVALID_KEY', 'key has no part "id"; it is { ip, account, global }'])
    expect((await of.take({ ip: '1', account: 'a' })).allowed).toBe(true)
  })

  test('policies that are all global have an empty key', () => {
    const all = new RateLimiter({ all: gcra({ limit: 3, period: '1h', per: 'global' }) })
    expect(failureOf(() => all.takeSync(anything('a'))).message).toMatch(/^key must be an object: \{\}/)
    expect(failureOf(() => all.takeSync(anything({ ip: '1' }))).message).toMatch(/^key has no part "ip"; it is \{\}/)
  })
})

describe('operations', () => {
  const all = [
    ['take', (of, key) => of.take(key)],
    ['take with a tag', (of, key) => of.take(key, { tag: 'x' })],
    ['takeUpTo', (of, key) => of.takeUpTo(key, 1)],
    ['peek', (of, key) => of.peek(key)],
    ['penalize', (of, key) => of.penalize(key)],
    ['reset', (of, key) => of.reset(key)],
    ['block', (of, key) => of.block(key, 1)],
    ['unblock', (of, key) => of.unblock(key)],
    ['override', (of, key) => of.override(key, { limit: 5 }, { ttl: 1 })],
    ['clearOverride', (of, key) => of.clearOverride(key)],
  ] as [string, (of: RateLimiter, key: string) => Promise<unknown>][]

  test.each(all)('%s refuses an invalid key, and a closed limiter', async (_, ask) => {
    const of = new RateLimiter(three)
    for (const [key, message] of [
      [undefined, 'key must be a string, got undefined'],
      [5, 'key must be a string, got number: convert it with String()'],
      [{}, 'key must be a string, got object: keys with parts need policies that have a per'],
      ['', 'key must not be empty'],
      ['x'.repeat(2_000), 'key must be at most 1024 bytes of UTF-8, got 2000'],
      ['\ud800', 'key must be a well-formed string, got one with a lone surrogate'],
    ] as const) {
      await expect(ask(of, anything(key))).rejects.toMatchObject({ code: 'INVALID_KEY', message })
    }
    await of.close()
    await expect(ask(of, 'a')).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test.each([null, 5, '', 'x'.repeat(1_025), '\ud800', {}])('%p is not a tag', async (tag) => {
    const failed = { code: 'INVALID_OPTION', message: expect.stringMatching(/^tag must /) }
    expect(failureOf(() => new RateLimiter(three, { tag: anything(tag) }))).toMatchObject(failed)
    const of = new RateLimiter(three, { tag: 'shard 7' })
    expect(failureOf(() => of.takeSync('a', { tag: anything(tag) }))).toMatchObject(failed)
    await expect(of.reset('a', { tag: anything(tag) })).rejects.toMatchObject(failed)
    await expect(of.takeUpTo('a', 1, anything({ tga: 'x' }))).rejects.toMatchObject({
      message: 'takeUpTo has no option "tga"; it takes tag, tier',
    })
  })

  test('a tag has no effect on the embedded store', async () => {
    const of = new RateLimiter(three, { tag: 'one' })
    await of.take('a', { tag: 'two' })
    await of.takeMany(['a', 'b'], { tag: 'three' })
    expect((await of.peek('a', { cost: 0, tag: 'four' })).remaining).toBe(1)
  })

  test('a full store has no room for one more block or override', async () => {
    const clock = new FakeClock()
    const of = new RateLimiter(three, { store: new MemoryStore({ maxKeys: 1, clock: clock.read }) })
    await of.take('resident', 3)
    const full = { code: 'STORE_FULL', charged: false, message: expect.stringContaining('maxKeys') }
    await expect(of.block('newcomer', '1h')).rejects.toMatchObject(full)
    await expect(of.override('newcomer', { limit: 5 }, { ttl: '1h' })).rejects.toMatchObject(full)
    clock.advance(3_600_000)
    await of.block('newcomer', '1h')
    expect((await of.take('newcomer')).status).toBe('blocked')
  })

  test('a refund that failed can be retried', async () => {
    let time = 1_000
    const store = new MemoryStore({ clock: () => time })
    const of = new RateLimiter(three, { store })
    const decision = await of.take('a', 3)
    time = Number.NaN
    await expect(of.refund(decision, 2)).rejects.toMatchObject({ code: 'INVALID_OPTION', charged: false })
    time = 1_000
    expect(await of.refund(decision)).toBe(3)
    expect((await of.peek('a', 0)).remaining).toBe(3)
  })
})
