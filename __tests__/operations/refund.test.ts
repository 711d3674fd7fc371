import { DecisionOrigin, withMetadata } from '../../ts/api/decision-metadata.js'
import { type Decision, fixedWindow, gcra, type Policy } from '../../ts/index.js'
import { anything } from '../failure.js'
import { SAMPLES } from '../policies/samples.js'
import { BACKENDS } from './stores.js'

describe.each(BACKENDS)('refund: $name', (backend) => {
  test.each(Object.entries<Policy>(SAMPLES))('%s: gives back the units of a decision, once', async (_, policy) => {
    const limiter = backend.limiter(policy)
    const decision = await limiter.take('a', 4)
    const other = await limiter.take('a', 2)
    expect(await limiter.refund(anything(decision), 1)).toBe(1)
    expect((await limiter.peek('a', 0)).remaining).toBe(5)
    expect(await limiter.refund(anything(decision))).toBe(3)
    expect((await limiter.peek('a', 0)).remaining).toBe(8)
    expect(await limiter.refund(anything(decision))).toBe(0)
    expect(await limiter.refund(anything(decision), 5)).toBe(0)
    expect((await limiter.peek('a', 0)).remaining).toBe(8)
    expect(await limiter.refund(anything(other), 100)).toBe(2)
    expect((await limiter.peek('a', 0)).remaining).toBe(10)
  })

  test.each(Object.entries<Policy>(SAMPLES))(
    '%s: after a reset, units of earlier calls do not come back, and those of later calls do',
    async (_, policy) => {
      const limiter = backend.limiter(policy)
      const early = await limiter.take('a', 6)
      await limiter.reset('a')
      const late = await limiter.take('a', 5)
      expect(await limiter.refund(anything(early))).toBe(0)
      expect((await limiter.peek('a', 0)).remaining).toBe(5)
      expect(await limiter.refund(anything(late), 2)).toBe(2)
      expect((await limiter.peek('a', 0)).remaining).toBe(7)
      const copy = JSON.parse(JSON.stringify(late))
      expect(await limiter.refund(copy, 3, { key: 'a' } as never)).toBe(3)
      expect((await limiter.peek('a', 0)).remaining).toBe(10)
    },
  )

  test('after a call under other numbers, units of earlier calls do not come back', async () => {
    const limiter = backend.limiter(gcra({ limit: 10, period: '10h' }))
    const early = await limiter.take('a', 5)
    await limiter.override('a', { limit: 10, period: '5h' }, { ttl: '1h' })
    const late = await limiter.take('a', 2)
    expect(await limiter.refund(early)).toBe(0)
    expect((await limiter.peek('a', 0)).remaining).toBe(3)
    expect(await limiter.refund(late)).toBe(2)
    expect((await limiter.peek('a', 0)).remaining).toBe(5)
  })

  test('a reservation is not refunded after a reset', async () => {
    const limiter = backend.limiter(gcra({ limit: 10, period: '10h' }))
    const early = await limiter.take('a', 3)
    const reservation = await limiter.reserve('a', 4)
    await limiter.reset('a')
    await limiter.take('a', 8)
    expect(await limiter.refund(early)).toBe(0)
    expect(reservation.allowed && (await reservation.commit(1))).toMatchObject({ settled: false })
    expect((await limiter.peek('a', 0)).remaining).toBe(2)
  })

  test('decisions of takeMany and takeUpTo can be refunded, too', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 10, window: '1h' }))
    const [first, second] = await limiter.takeMany(['a', 'b'], [2, 3])
    const upTo = await limiter.takeUpTo('a', 100)
    expect(upTo.granted).toBe(8)
    expect(await limiter.refund(upTo)).toBe(8)
    expect(await limiter.refund(second as Decision<'default'>)).toBe(3)
    expect(await limiter.refund(first as Decision<'default'>)).toBe(2)
    expect((await limiter.peek('a', 0)).remaining).toBe(10)
    expect((await limiter.peek('b', 0)).remaining).toBe(10)
  })

  test('a refused decision has no units to refund', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 1, window: '1h' }))
    await limiter.take('a')
    expect(await limiter.refund(await limiter.take('a'))).toBe(0)
    expect(await limiter.refund(await limiter.take('a', 2))).toBe(0)
    expect(await limiter.refund(await limiter.takeUpTo('a', 2))).toBe(0)
    expect((await limiter.take('a')).status).toBe('refused')
  })

  test('a window that has closed refunds nothing', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 5, window: '500ms' }))
    const old = await limiter.take('a', 3)
    await backend.pass(500)
    await limiter.take('a', 2)
    expect(await limiter.refund(old)).toBe(0)
    expect((await limiter.peek('a', 0)).remaining).toBe(3)
  })

  test('drained units are not refunded', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '500ms' }))
    const decision = await limiter.take('a', 5)
    await backend.pass(500)
    expect(await limiter.refund(decision)).toBe(0)
    expect((await limiter.peek('a', 0)).remaining).toBe(5)
  })

  test('each policy of a set refunds the units that it still holds', async () => {
    const limiter = backend.limiter({
      short: fixedWindow({ limit: 5, window: '100ms', per: 'ip' }),
      long: fixedWindow({ limit: 9, window: '1h', per: 'account' }),
    })
    const key = { ip: '1', account: 'ann' }
    const decision = await limiter.take(key, 3)
    await backend.pass(100)
    await limiter.take({ ip: '1', account: 'ben' }, 2)
    expect(await limiter.refund(decision)).toBe(3)
    const { policies } = await limiter.peek(key, 0)
    expect(policies.long.remaining).toBe(9)
    expect(await limiter.refund(decision)).toBe(0)
  })

  test('an object that is not a decision of this limiter is refused', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    const other = backend.limiter(gcra({ limit: 5, period: '1h' }))
    const decision = await limiter.take('a')
    const copies = [{ ...decision }, structuredClone(decision), new Proxy(decision, {}), await limiter.peek('a')]
    for (const one of [...copies, await other.take('a'), undefined, null, 5, 'a', {}, []]) {
      await expect(limiter.refund(anything(one))).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(
          /^decision must be the object that take, takeSync, takeMany, takeUpTo or wait of this limiter/,
        ),
      })
    }
    for (const units of [0, -1, 0.5, '1', null]) {
      await expect(limiter.refund(decision, anything(units))).rejects.toMatchObject({ code: 'INVALID_COST' })
    }
    expect(await limiter.refund(decision)).toBe(1)
  })

  test('a closed limiter refunds nothing', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    const decision = await limiter.take('a')
    await limiter.close()
    await expect(limiter.refund(decision)).rejects.toMatchObject({ code: 'CLOSED' })
  })
})

describe.each(BACKENDS)('refund of a copy: $name', (backend) => {
  const copyOf = <T>(decision: T): T => JSON.parse(JSON.stringify(decision))

  test.each(Object.entries<Policy>(SAMPLES))('%s: a decision survives JSON', async (_, policy) => {
    const limiter = backend.limiter(policy)
    const decision = await limiter.take('a', 4)
    expect(await limiter.refund(copyOf(anything(decision)), 3, { key: 'a' })).toBe(3)
    expect((await limiter.peek('a', 0)).remaining).toBe(9)
    expect((await limiter.peek('b', 0)).remaining).toBe(10)
  })

  test('of several policies and key parts', async () => {
    const limiter = backend.limiter({
      ip: gcra({ limit: 5, period: '1h', per: 'ip' }),
      user: fixedWindow({ limit: 3, window: '1h', per: 'user' }),
    })
    const key = { ip: 'a', user: 'b' }
    const decision = copyOf(await limiter.take(key, 3))
    expect(await limiter.refund(decision, 2, { key })).toBe(2)
    expect((await limiter.peek(key)).policies).toMatchObject({ ip: { remaining: 4 }, user: { remaining: 2 } })
  })

  test('a refused call, and a source other than the store, have no units to give back', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 1, window: '1h' }))
    const taken = await limiter.take('a')
    const refused = copyOf(await limiter.take('a'))
    expect(await limiter.refund(refused, 1, { key: 'a' })).toBe(0)
    for (const source of ['lease', 'fallback', 'none', 'cache'] as const) {
      expect(await limiter.refund({ ...taken, source }, 1, { key: 'a' })).toBe(0)
    }
    expect((await limiter.take('a')).status).toBe('refused')
  })

  test('the key of a decision may be given with the decision itself, and must be its own', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    const decision = await limiter.take('a', 3)
    const message = 'refund: key must be the key of the decision, got another'
    await expect(limiter.refund(decision, 1, { key: 'b' })).rejects.toMatchObject({ code: 'INVALID_OPTION', message })
    expect(await limiter.refund(decision, 5, { key: 'a' })).toBe(3)
  })

  test.each([
    [(d: object) => [{ ...d }], /^decision must be the object that take, .* for a copy, such as one from JSON, give/],
    [(d: object) => [Promise.resolve(d), 1, { key: 'a' }], /: await it first$/],
    [(d: object) => [{ ...d }, undefined, { key: 'a' }], /^units must be a whole number from 1 .* got undefined$/],
    [(d: object) => [{ ...d }, 1, {}], /^key must be a string, got undefined$/],
    [(d: object) => [{ ...d }, 1, { key: 'a', keys: 'b' }], /^refund has no option "keys"; did you mean "key"\?/],
    [(d: object) => [{ ...d, policies: {} }, 1, { key: 'a' }], /^decision must be a decision of a limiter with the/],
    [
      (d: object) => [{ ...d, at: '7' }, 1, { key: 'a' }],
      /^decision must be a decision of a limiter with the policies/,
    ],
    [
      () => [{ __proto__: null }, 1, { key: 'a' }],
      /^decision must be a decision of a limiter with the policies default/,
    ],
    [() => ['a', 1, { key: 'a' }], /^decision must be the object that take/],
  ])('%#: what is not a copy of a decision is an error', async (argumentsOf, message) => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    const given = argumentsOf(await limiter.take('a')) as unknown as Parameters<typeof limiter.refund>
    await expect(limiter.refund(...given)).rejects.toMatchObject({ message: expect.stringMatching(message) })
    expect((await limiter.peek('a', 0)).remaining).toBe(4)
  })
})

describe.each(BACKENDS)('metadata of a decision: $name', (backend) => {
  test('is not enumerable, copied or compared', async () => {
    const limiter = backend.limiter(gcra({ limit: 5, period: '1h' }))
    const decision = await limiter.take('a')
    expect(Reflect.ownKeys(decision)).toEqual(Reflect.ownKeys(await limiter.peek('a')))
    expect(Object.getPrototypeOf(decision)).toBe(Object.prototype)
    for (const copy of [{ ...decision }, structuredClone(decision), JSON.parse(JSON.stringify(decision))]) {
      expect(copy).toStrictEqual(decision)
    }
  })

  test('survives freezing the decision', async () => {
    const limiter = backend.limiter(fixedWindow({ limit: 5, window: '1h' }))
    const decision = Object.freeze(await limiter.take('a', 3))
    expect(await limiter.refund(decision, 2)).toBe(2)
    expect(await limiter.refund(decision)).toBe(1)
    expect(await limiter.refund(decision)).toBe(0)
  })

  test('is set once', () => {
    const origin = new DecisionOrigin(undefined)
    const decision = withMetadata({ allowed: true } as Decision, origin, 'a', 1)
    expect(() => withMetadata(decision, origin, 'a', 1)).toThrow(TypeError)
  })
})
