/** The failures that the fallback answers, and the operations that stay with the store. */
import { gcra, RedisStore, type RedisStoreOptions } from '../../ts/index.js'
import { rejectionOf } from '../failure.js'
import { LATE_MS, PATIENT_MS, recovery } from '../redis/help.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { fallbackLimiter, newPrefix, waitUntilDown } from './help.js'

const POLICY = gcra({ limit: 100, period: '1h', burst: 20 })
const QUARTER = { embedded: { share: 0.25 } } as const
/** The deadline of calls that fail in any case. */
const SHORT_MS = 300

let server: RedisServer

beforeEach(async () => {
  server = await RedisServer.start()
})

afterEach(() => server.stop())

function newStore(options: Partial<RedisStoreOptions> = {}): RedisStore {
  return new RedisStore({ url: server.url, commandTimeout: PATIENT_MS, ...options })
}

test('a working store decides, and the embedded share is not involved', async () => {
  await using store = newStore()
  const limiter = fallbackLimiter(store, POLICY, QUARTER)
  expect(await limiter.take('a', 20)).toMatchObject({ status: 'allowed-last', capacity: 20, source: 'store' })
  expect(await limiter.take('a')).toMatchObject({ status: 'refused', source: 'store' })
  expect(await fallbackLimiter(store, POLICY, 'allow').take('a', 21)).toMatchObject({
    status: 'impossible',
    source: 'store',
  })
  expect(await fallbackLimiter(store, POLICY, 'refuse').wait('a')).toMatchObject({ status: 'allowed', source: 'store' })
  await limiter.ready()
})

test('a server that is killed, and comes back', async () => {
  await using patient = newStore()
  await using impatient = newStore({ commandTimeout: SHORT_MS })
  const prefix = newPrefix()
  const limiter = fallbackLimiter(patient, POLICY, QUARTER, prefix)
  // For the outage. Limiters of one prefix have one share.
  const during = fallbackLimiter(impatient, POLICY, QUARTER, prefix)
  expect(await limiter.take('a', 15)).toMatchObject({ remaining: 5, source: 'store' })
  await server.kill()
  expect(await during.take('a', 5)).toMatchObject({ status: 'allowed-last', source: 'fallback' })
  await expect(during.ready()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  await server.begin()
  await until('the store decides', async () => (await limiter.take('b')).source === 'store')
  // The server is empty; the share kept its state.
  expect(await limiter.take('a')).toMatchObject({ remaining: 19, source: 'store' })
  await server.kill()
  expect(await during.take('a')).toMatchObject({ status: 'refused', source: 'fallback' })
})

test("a server that is frozen: the fallback answers at the call's deadline", async () => {
  await using store = newStore({ commandTimeout: 1_000 })
  const limiter = fallbackLimiter(store, POLICY, 'refuse')
  await until('the limiter is ready', () => limiter.ready().then(() => true))
  server.freeze()
  const start = performance.now()
  const calls = [limiter.take('a'), limiter.peek('a'), limiter.wait('a', { onTooLong: 'resolve' })]
  const decisions = await Promise.all(calls)
  expect(performance.now() - start).toBeLessThan(1_000 + LATE_MS)
  expect(decisions.map(({ source }) => source)).toEqual(['none', 'none', 'none'])
  server.thaw()
})

test('an unreadable key falls back, and the other keys do not', async () => {
  await using store = newStore()
  const limiter = fallbackLimiter(store, POLICY, QUARTER)
  await limiter.take('foreign')
  const name = (await server.command<string[]>('KEYS', '*foreign*'))[0] as string
  await server.command('SET', name, 'hello')
  const many = await limiter.takeMany(['a', 'foreign', 'b', 'foreign', 'a'], [1, 3, 1, 3, 1])
  expect(many.map(({ source, remaining }) => [source, remaining])).toEqual([
    ['store', 19],
    ['fallback', 2],
    ['store', 19],
    ['fallback', 2],
    ['store', 18],
  ])
  expect(many.map(({ allowed }) => allowed)).toEqual([true, true, true, false, true])
})

test('a call above maxPending falls back immediately', async () => {
  await server.kill()
  await using store = newStore({ maxPending: 2 })
  const limiter = fallbackLimiter(store, POLICY, QUARTER)
  const waiting = [limiter.take('a'), limiter.take('a')]
  expect(await limiter.take('b', 5)).toMatchObject({ status: 'allowed-last', source: 'fallback' })
  const many = await limiter.takeMany(['b', 'c'])
  expect(many.map(({ status, source }) => [status, source])).toEqual([
    ['refused', 'fallback'],
    ['allowed', 'fallback'],
  ])
  expect(store.status().pending).toBe(2)
  await server.begin()
  expect((await Promise.all(waiting)).map(({ remaining, source }) => [remaining, source])).toEqual([
    [19, 'store'],
    [18, 'store'],
  ])
})

test('calls of all operations that fail together resolve in call order', async () => {
  await server.kill()
  await using store = newStore({ commandTimeout: SHORT_MS })
  const limiter = fallbackLimiter(store, POLICY, QUARTER)
  const [many, upTo, penalty, reserved, waited, last] = await Promise.all([
    limiter.takeMany(['a', 'b', 'a'], [1, 1, 1]),
    limiter.takeUpTo('a', 1),
    limiter.penalize('a'),
    limiter.reserve('b', 3),
    limiter.wait('a', { maxWait: 0 }),
    limiter.take('a'),
  ])
  expect(many.map(({ remaining }) => remaining)).toEqual([4, 4, 3])
  expect([upTo.remaining, penalty, reserved.decision.remaining]).toEqual([2, 1, 1])
  expect([waited.status, last.status]).toEqual(['allowed-last', 'refused'])
})

// promise: refund-where-charged
test('refunds and settlements go to the backend that was charged', async () => {
  await using store = newStore({ commandTimeout: 5_000 })
  await using impatient = newStore({ commandTimeout: SHORT_MS })
  const prefix = newPrefix()
  const limiter = fallbackLimiter(store, POLICY, QUARTER, prefix)
  const reserved = await limiter.reserve('a', 6)
  const taken = await limiter.take('a', 4)
  expect(taken).toMatchObject({ source: 'store', remaining: 10 })
  server.freeze()
  const [instead, reservedInstead] = await Promise.all([limiter.take('a', 4), limiter.reserve('a', 1)])
  expect([instead.source, reservedInstead.decision.source]).toEqual(['fallback', 'fallback'])
  if (!reserved.allowed || !reservedInstead.allowed) {
    throw new Error('both were to be allowed')
  }
  // The store cannot take the units back now. A later retry can succeed.
  await waitUntilDown(store)
  expect(await rejectionOf(limiter.refund(taken, 1))).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: false })
  expect(await rejectionOf(reserved.renew())).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  expect(await reservedInstead.renew('1h')).toEqual({ renewed: true, expiresAt: reservedInstead.expiresAt })
  expect(await rejectionOf(reserved.commit(5))).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: false })
  server.thaw()
  await recovery(fallbackLimiter(store, POLICY, 'throw'), 'other')
  // Redis has run everything that it received, also the call that fell back.
  const remaining = async () => (await limiter.peek('a', 0)).remaining
  const before = await remaining()
  expect(await limiter.refund(instead)).toBe(4)
  expect(await reservedInstead.cancel()).toEqual({
    settled: true,
    refunded: 1,
    charged: 0,
    owed: 0,
    shortfall: 0,
    late: false,
  })
  expect(await remaining()).toBe(before)
  expect(await limiter.refund(taken)).toBe(4)
  expect(await remaining()).toBe(before + 4)
  await server.kill()
  const share = fallbackLimiter(impatient, POLICY, QUARTER, prefix)
  expect(await share.peek('a', 0)).toMatchObject({ remaining: 5, source: 'fallback' })
})

test('a closed store is CLOSED, and closing a limiter settles its pending calls', async () => {
  await server.kill()
  const store = newStore({ commandTimeout: 2_000 })
  const limiter = fallbackLimiter(store, POLICY, QUARTER)
  const another = fallbackLimiter(store, POLICY, 'allow')
  const calls = [limiter.take('a'), limiter.take('a', 21), limiter.peek('a')]
  await limiter.close()
  const decisions = await Promise.all(calls)
  expect(decisions.map(({ status, source }) => `${status} ${source}`)).toEqual([
    'allowed fallback',
    'impossible fallback',
    'allowed fallback',
  ])
  await expect(limiter.take('a')).rejects.toMatchObject({ code: 'CLOSED' })
  await store.close()
  await expect(another.take('a')).rejects.toMatchObject({ code: 'CLOSED' })
})

test('a caller that retries in a tight loop during an outage notices the recovery', async () => {
  await using store = newStore({ commandTimeout: SHORT_MS })
  const limiters = [fallbackLimiter(store, POLICY, QUARTER), fallbackLimiter(store, POLICY, 'allow')]
  await server.kill()
  await waitUntilDown(store)
  let decidedByStore = 0
  const loops = [...limiters, ...limiters].map(async (limiter) => {
    while ((await limiter.take('busy')).source !== 'store') {}
    decidedByStore++
  })
  const begun = server.begin()
  await Promise.all([...loops, begun])
  expect(decidedByStore).toBe(4)
})
