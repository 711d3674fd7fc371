/** Permits that are settled, over a real Redis: processes that are killed, and answers that are lost. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { concurrency, fixedWindow, type Permit, RateLimiter, RedisStore } from '../../ts/index.js'
import { PATIENT_MS } from '../redis/help.js'
import { openedRedis } from '../redis/opened.js'
import { RedisServer } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import { until } from '../servers/until.js'

const POLICIES = {
  tokens: fixedWindow({ limit: 100, window: '1d', meter: 'tokens' }),
  jobs: concurrency({ limit: 4, ttl: '30s', meter: 'jobs', defaultCost: 1 }),
}

const redis = openedRedis()

function acquired(permit: Permit<string, 'jobs' | 'tokens', true>) {
  if (!permit.allowed) {
    throw new Error(`not allowed: ${permit.decision.status}`)
  }
  return permit
}

function remainingOf(limiter: RateLimiter<typeof POLICIES>) {
  return async () => {
    const { policies } = await limiter.peek('key', { cost: { tokens: 0, jobs: 0 } })
    return [policies.tokens.remaining, policies.jobs.remaining]
  }
}

test('a killed process loses its permits with their life; its estimates stay charged, also when settled late', async () => {
  await using server = await RedisServer.start({ hasOwnClock: true })
  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(POLICIES, { store, prefix: 'killed' })
  const remaining = remainingOf(limiter)
  const work = { url: server.url, prefix: 'killed', policies: POLICIES, cost: { tokens: 30 } }
  using child = fork(join(__dirname, 'estimating.cjs'), [JSON.stringify(work)])
  const [[permit, reservation]] = await once(child, 'message')
  expect(await remaining()).toEqual([40, 2])
  child.kill('SIGKILL')
  await once(child, 'exit')
  await server.stepClock(40)
  expect(await remaining()).toEqual([40, 4])
  const late = { settled: true, late: true, refunded: { tokens: 0 } }
  expect(await limiter.settle(permit, { tokens: 1 })).toMatchObject(late)
  expect(await remaining()).toEqual([40, 4])
  // A reservation has an end of its own, by which another process may settle it.
  expect(await limiter.settle(reservation, { tokens: 1 })).toMatchObject({ settled: true, refunded: { tokens: 29 } })
  expect(await remaining()).toEqual([69, 4])
  await limiter.close()
})

test('the job of a killed process is delivered again: its permit is the same, and later acquired without a charge', async () => {
  await using server = await RedisServer.start({ hasOwnClock: true })
  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(POLICIES, { store, prefix: 'delivered' })
  const remaining = remainingOf(limiter)
  const deliver = (id: string) => limiter.acquire('key', { cost: { tokens: 30 }, id })
  const kill = async (id: string) => {
    const work = { url: server.url, prefix: 'delivered', policies: POLICIES, cost: { tokens: 30 }, id }
    using child = fork(join(__dirname, 'estimating.cjs'), [JSON.stringify(work)])
    const [[reservation]] = await once(child, 'message')
    child.kill('SIGKILL')
    await once(child, 'exit')
    return reservation
  }
  await kill('job:1')
  expect(await remaining()).toEqual([70, 3])
  // Its permit is still held.
  const first = acquired(await deliver('job:1'))
  expect([first.decision.repeated, await remaining()]).toEqual([true, [70, 3]])
  expect(await first.commit({ tokens: 10 })).toMatchObject({ settled: true, refunded: { tokens: 20 } })
  expect(await remaining()).toEqual([90, 4])
  await kill('job:2')
  expect(await remaining()).toEqual([60, 3])
  await server.stepClock(40)
  expect(await remaining()).toEqual([60, 4])
  // Its permit has expired.
  const second = acquired(await deliver('job:2'))
  expect([second.decision.repeated, await remaining()]).toEqual([true, [60, 3]])
  expect(await second.commit({ tokens: 35 })).toMatchObject({ settled: true, late: true, charged: { tokens: 5 } })
  expect(await second.release()).toBe(true)
  expect(await remaining()).toEqual([55, 4])
  await limiter.close()
})

test('answers that are lost: a repeated commit or cancel has no effect, and the permit is released once', async () => {
  await using proxy = await TcpProxy.start(redis.server)
  await using remote = new RedisStore({ url: proxy.url, commandTimeout: 1_000 })
  const near = new RateLimiter(POLICIES, { store: redis.store, prefix: 'lost-answers' })
  const far = new RateLimiter(POLICIES, { store: remote, prefix: 'lost-answers' })
  const remaining = remainingOf(near)
  /** Makes a call whose answer is lost after it has taken effect. */
  const lost = async (call: () => Promise<unknown>, expected: readonly number[]) => {
    proxy.hold('down')
    await expect(call()).rejects.toMatchObject({ charged: 'unknown' })
    expect(await remaining()).toEqual(expected)
    proxy.cut()
    proxy.release()
    // The client may see only by its next call that its connection is broken.
    await until('the client is connected', () => far.peek('key', { cost: { tokens: 0 } }).then(Boolean))
  }
  const permits = [
    acquired(await far.acquire('key', { cost: { tokens: 30 } })),
    acquired(await far.reserve('key', { tokens: 30 })),
  ] as const
  expect(await remaining()).toEqual([40, 2])
  await lost(() => permits[0].commit({ tokens: 10 }), [60, 3])
  await lost(() => permits[1].cancel(), [90, 4])
  for (const permit of permits) {
    expect(await permit.commit({ tokens: 0 })).toEqual({ settled: false, reason: 'settled-before' })
    expect(await permit.cancel()).toEqual({ settled: false, reason: 'settled-before' })
    // Whether it was held when it ended is not known any more.
    expect(await permit.release()).toBe(false)
  }
  expect(await remaining()).toEqual([90, 4])
  await Promise.all([near.close(), far.close()])
})

test('an acquire whose answer is lost releases its permit', async () => {
  await using proxy = await TcpProxy.start(redis.server)
  await using remote = new RedisStore({ url: proxy.url, commandTimeout: 1_000 })
  const near = new RateLimiter(POLICIES, { store: redis.store, prefix: 'lost-acquire' })
  const far = new RateLimiter(POLICIES, { store: remote, prefix: 'lost-acquire' })
  const remaining = remainingOf(near)
  await until('the client is connected', () => far.peek('key', { cost: { tokens: 0 } }).then(Boolean))
  proxy.hold('down')
  await expect(far.acquire('key', { cost: { tokens: 30 } })).rejects.toMatchObject({ charged: 'unknown' })
  expect((await remaining())[0]).toBe(70)
  proxy.cut()
  proxy.release()
  await until('the permit is released', async () => (await remaining())[1] === 4)
  await Promise.all([near.close(), far.close()])
})

test('an acquire with an id whose answer is lost keeps its permit for the call that repeats it', async () => {
  await using proxy = await TcpProxy.start(redis.server)
  await using remote = new RedisStore({ url: proxy.url, commandTimeout: 1_000 })
  const near = new RateLimiter(POLICIES, { store: redis.store, prefix: 'lost-by-id' })
  const far = new RateLimiter(POLICIES, { store: remote, prefix: 'lost-by-id' })
  const remaining = remainingOf(near)
  const call = { cost: { tokens: 30 }, id: 'x' }
  await until('the client is connected', () => far.peek('key', { cost: { tokens: 0 } }).then(Boolean))
  proxy.hold('down')
  await expect(far.acquire('key', call)).rejects.toMatchObject({ charged: 'unknown' })
  expect(await remaining()).toEqual([70, 3])
  proxy.cut()
  proxy.release()
  await until('the client is connected', () => far.peek('key', { cost: { tokens: 0 } }).then(Boolean))
  const permit = acquired(await far.acquire('key', call))
  expect([permit.decision.repeated, await remaining()]).toEqual([true, [70, 3]])
  expect(await permit.commit({ tokens: 10 })).toMatchObject({ settled: true, refunded: { tokens: 20 } })
  expect(await remaining()).toEqual([90, 4])
  await Promise.all([near.close(), far.close()])
})

test('close releases permits, and another process can still settle their estimates', async () => {
  const near = new RateLimiter(POLICIES, { store: redis.store, prefix: 'closed' })
  const closing = new RateLimiter(POLICIES, { store: redis.store, prefix: 'closed' })
  const remaining = remainingOf(near)
  const permit = acquired(await closing.acquire('key', { cost: { tokens: 30 } }))
  const { id, signal } = permit
  await closing.close()
  expect([signal.aborted, await remaining()]).toEqual([true, [70, 4]])
  await expect(permit.commit({ tokens: 1 })).rejects.toMatchObject({ code: 'CLOSED' })
  expect(await permit.release()).toBe(false)
  expect(await near.settle(id, { tokens: 1 })).toMatchObject({ settled: true, refunded: { tokens: 29 } })
  expect(await remaining()).toEqual([99, 4])
  await near.close()
})
