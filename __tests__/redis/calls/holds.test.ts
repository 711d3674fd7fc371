/**
 * Reservations of several processes on one Redis: nothing is charged or refunded twice, and no hold
 * stays behind.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fixedWindow, gcra, RateLimiter, RedisStore, type Reservation } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { until } from '../../servers/until.js'
import { PATIENT_MS } from '../help.js'
import { openedRedis } from '../opened.js'
import { describeReserving, keys } from '../reserving.js'

const redis = openedRedis()

// `holds.deep.test.ts` has more rounds.
describeReserving(redis, 25)

describe('a process that is killed', () => {
  test('a killed process has spent its reservations, which vanish with the window or by draining', async () => {
    await using server = await RedisServer.start({ hasOwnClock: true })
    await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
    const policies = [fixedWindow({ limit: 10, window: '1h' }), gcra({ limit: 10, period: '90m' })] as const
    const work = { url: server.url, policies, units: 5, ttl: '15m' }
    using child = fork(join(__dirname, '..', 'programs', 'reserve-and-wait.mjs'), [JSON.stringify(work)])
    const [allowed] = await once(child, 'message')
    expect(allowed).toEqual([true, true])
    child.kill('SIGKILL')
    await once(child, 'exit')
    const limiters = policies.map((policy, index) => new RateLimiter(policy, { store, prefix: `killed-${index}` }))
    const remaining = () => Promise.all(limiters.map(async (limiter) => (await limiter.peek('key', 0)).remaining))
    /** The time of the server since the reservations, in minutes. */
    const passTo = (minutes: number) => server.stepClock(60 * minutes)
    expect(await keys(server, 'killed-*~holds*', true)).toBe(2)
    await passTo(18)
    // For an hour after their end they can be settled.
    expect(await keys(server, 'killed-*~holds*', true)).toBe(2)
    // Of the five units, one has drained every nine minutes.
    expect(await remaining()).toEqual([5, 7])
    await passTo(63)
    expect(await remaining()).toEqual([10, 10])
    await passTo(78)
    expect(await keys(server, 'killed-*~holds*', true)).toBe(0)
    // TTLs are up to three times as long as the states matter.
    await passTo(6 * 60)
    expect(await keys(server, 'killed-*{*', true)).toBe(0)
    expect(await keys(server, 'killed-*', false)).toBe(0)
  })
})

describe('a call whose outcome is unknown', () => {
  const units = (reservation: Reservation) => (reservation.allowed ? reservation.units : 0)

  test.each([
    { actual: 1, remaining: 9 },
    { actual: 6, remaining: 4 },
  ])('can be retried: $actual units are settled once', async ({ actual, remaining }) => {
    const impatient = new RedisStore({ url: redis.server.url, commandTimeout: 1_000 })
    const limiter = new RateLimiter(fixedWindow({ limit: 10, window: '1h' }), { store: impatient, prefix: 'unknown' })
    try {
      await until('the store is ready', () => limiter.ready().then(() => true))
      await limiter.reset('key')
      const reservation = await limiter.reserve('key', 4)
      expect(units(reservation)).toBe(4)
      if (!reservation.allowed) {
        return
      }
      redis.server.freeze()
      await expect(reservation.commit(actual)).rejects.toMatchObject({ code: 'STORE_TIMEOUT', charged: 'unknown' })
      redis.server.thaw()
      await until('the store is ready', () => limiter.ready().then(() => true))
      expect(await reservation.commit(actual)).toEqual({ settled: false, reason: 'settled-before' })
      expect((await limiter.peek('key', 0)).remaining).toBe(remaining)
      expect(await reservation.cancel()).toEqual({ settled: false, reason: 'settled-before' })
      expect((await limiter.peek('key', 0)).remaining).toBe(remaining)
    } finally {
      redis.server.thaw()
      await impatient.close()
    }
  })
})

test('answers that are lost: a repeated settlement has no effect, and a repeated extension is counted', async () => {
  await using proxy = await TcpProxy.start(redis.server)
  const policy = fixedWindow({ limit: 100, window: '1d' })
  await using remote = new RedisStore({ url: proxy.url, commandTimeout: 1_000 })
  const near = new RateLimiter(policy, { store: redis.store, prefix: 'lost' })
  const far = new RateLimiter(policy, { store: remote, prefix: 'lost' })
  const reservation = await far.reserve('key', 10, { ttl: '1d' })
  if (!reservation.allowed) {
    throw new Error('not allowed')
  }
  /** Makes a call whose answer is lost after it has taken effect. */
  const lost = async (call: () => Promise<unknown>, remaining: number) => {
    proxy.hold('down')
    await expect(call()).rejects.toMatchObject({ charged: 'unknown' })
    expect((await near.peek('key')).remaining).toBe(remaining)
    proxy.cut()
    proxy.release()
    // The client may see only by its next call that its connection is broken.
    await until('the client is connected', () => far.peek('key').then(Boolean))
  }
  await lost(() => reservation.extend(20), 70)
  const extension = await reservation.extend(20)
  expect(extension.extended).toBe(true)
  expect((await near.peek('key')).remaining).toBe(50)
  // The units of the extension without an answer count as spent: the caller does not know of them.
  await lost(() => reservation.commit(5), 80)
  const again = { settled: false, reason: 'settled-before' }
  const settled = await Promise.all([
    reservation.commit(5),
    near.settle(reservation.id, 5),
    far.settle(reservation.id, 0),
  ])
  expect(settled).toEqual([again, again, again])
  expect((await near.peek('key')).remaining).toBe(80)
  await Promise.all([near.close(), far.close()])
})
