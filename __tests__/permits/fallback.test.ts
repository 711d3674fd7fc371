/** Permits while Redis is away, in each mode of `onStoreFailure`. */
import { PermitPool } from '../../ts/api/permit-pool.js'
import { engine } from '../../ts/backends/addon.js'
import type { LimiterBackend, Store } from '../../ts/backends/limiter-backend.js'
import { openBackend } from '../../ts/backends/open.js'
import { concurrency, fixedWindow, type Permit, RateLimiter, RedisStore, TollgateError } from '../../ts/index.js'
import { Keys } from '../../ts/input/keys.js'
import { timeOf } from '../../ts/platform/waiting-time.js'
import { policySetOf } from '../../ts/policies/policy-set.js'
import { TestClock } from '../../ts/testing/index.js'
import { rejectionOf } from '../failure.js'
import { failing, fallbackLimiter, knownDown } from '../fallback/help.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { byClock, settledBy } from './by-clock.js'

const POLICY = concurrency({ limit: 8, ttl: '1m' })

function acquired(permit: Permit): Extract<Permit, { readonly allowed: true }> {
  if (!permit.allowed) {
    throw new Error(`not allowed: ${permit.decision.status}`)
  }
  return permit
}

describe.each([failing(), knownDown()])('$name', (away) => {
  test('throw: acquire rejects, with and without waiting', async () => {
    const limiter = fallbackLimiter(away.store(), POLICY, 'throw')
    for (const maxWait of [0, 5_000]) {
      expect((await rejectionOf(limiter.acquire('a', { maxWait }))).code).toMatch(/^STORE_/)
    }
    await limiter.close()
  })

  test('allow: every call gets a permit that holds nothing', async () => {
    const clock = byClock(away.store())
    const limiter = fallbackLimiter(away.store(), POLICY, 'allow')
    const permits = await Promise.all(Array.from({ length: 20 }, () => limiter.acquire('a', { maxWait: 1_000 })))
    expect(permits.map(({ allowed, decision }) => [allowed, decision.source])).toEqual(Array(20).fill([true, 'none']))
    const first = permits[0] as Permit
    const { signal } = acquired(first)
    await clock.advance('1h')
    expect(signal.aborted).toBe(false)
    expect(await acquired(first).release()).toBe(true)
    await limiter.close()
  })

  describe('permits that are settled', () => {
    const policies = { rate: fixedWindow({ limit: 8, window: '1h' }), jobs: POLICY }
    const held = (permit: Permit<string, never, true>) => {
      if (!permit.allowed) {
        throw new Error(`not allowed: ${permit.decision.status}`)
      }
      return permit
    }

    test('allow: they have no units to move, at any time', async () => {
      const clock = byClock(away.store())
      const limiter = fallbackLimiter(away.store(), policies, 'allow')
      const permits = [held(await limiter.acquire('a', { cost: 2 })), held(await limiter.acquire('a', { cost: 2 }))]
      const reservation = held(await limiter.reserve('a', 2, { ttl: '2h' }))
      await clock.advance('1h')
      expect(await permits[0]?.commit(5)).toEqual({
        settled: true,
        refunded: 0,
        charged: 0,
        owed: 0,
        shortfall: 0,
        late: false,
      })
      expect(await permits[0]?.release()).toBe(true)
      expect(await permits[1]?.release()).toBe(true)
      expect(await reservation.cancel()).toMatchObject({ settled: true })
      expect(reservation.signal.aborted).toBe(false)
      await limiter.close()
    })

    test('an embedded share settles what it has charged', async () => {
      byClock(away.store())
      const limiter = fallbackLimiter(away.store(), policies, { embedded: { share: 0.5 } })
      const remaining = async () => {
        const { policies } = await limiter.peek('a', 0)
        return [policies.rate?.remaining, policies.jobs?.remaining]
      }
      const permit = held(await limiter.acquire('a', { cost: 2 }))
      const reservation = held(await limiter.reserve('a', 1))
      expect(await remaining()).toEqual([1, 1])
      expect(await permit.commit(1)).toMatchObject({ settled: true, refunded: 1 })
      expect(await reservation.cancel()).toMatchObject({ settled: true, refunded: 1 })
      expect(await remaining()).toEqual([3, 4])
      await limiter.close()
    })
  })

  test('refuse: no call gets a permit, and none waits for one', async () => {
    // The clock stands still, so no call waits.
    byClock(away.store())
    const limiter = fallbackLimiter(away.store(), POLICY, 'refuse')
    const permits = await Promise.all([limiter.acquire('a'), limiter.acquire('a', { maxWait: 60_000 })])
    expect(permits.map(({ allowed, decision }) => [allowed, decision.source])).toEqual(Array(2).fill([false, 'none']))
    await limiter.close()
  })

  test('an embedded share: the process has its part of the permits, which are renewed and released there', async () => {
    const clock = byClock(away.store())
    const limiter = fallbackLimiter(away.store(), POLICY, { embedded: { share: 0.25 } })
    const held = [acquired(await limiter.acquire('a')), acquired(await limiter.acquire('a'))]
    expect(held.map(({ decision }) => decision.source)).toEqual(['fallback', 'fallback'])
    expect(await limiter.acquire('a')).toMatchObject({ allowed: false, decision: { limit: 2 } })
    const signals = held.map(({ signal }) => signal)
    // The share's own clock shows when they expire.
    await until('some of their life is over', async () => (await limiter.peek('a', 0)).resetAfterMs < 60_000 - 10)
    const { resetAt } = await limiter.peek('a', 0)
    await clock.advance('21s')
    await until('they are renewed', async () => (await limiter.peek('a', 0)).resetAt > resetAt)
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false])
    const next = limiter.acquire('a', { maxWait: 10_000 })
    expect(await held[0]?.release()).toBe(true)
    expect((await settledBy(clock, next)).allowed).toBe(true)
    await limiter.close()
    expect(held[1]?.signal.aborted).toBe(true)
  })
})

// promise: permit-of-share
test('a permit of the share lives from the decision of the share on, however long the store took to fail', async () => {
  const clock = new TestClock()
  const policySet = policySetOf(concurrency({ limit: 4, ttl: 100 }))
  const failing = {
    isDown: false,
    origin: {},
    policySet,
    execute: async () => {
      await clock.sleep(1_000)
      throw new TollgateError('STORE_TIMEOUT', 'no answer', { charged: 'unknown' })
    },
  } as unknown as LimiterBackend
  const store = {
    address: 'shared.test:6379',
    engine: { ...engine, elapsedMs: () => clock.now() },
    open: () => failing,
  } as unknown as Store
  const onStoreFailure = { embedded: { share: 0.5 } }
  const backend = openBackend(store, policySet, { prefix: 'late', tag: undefined, onStoreFailure })
  const pool = new PermitPool(timeOf(clock))
  for (const maxWait of [0, 5_000]) {
    const call = { units: 1, maxWaitMs: maxWait, signal: undefined, tag: undefined, tier: undefined }
    const permit = acquired(await clock.advanceUntil(pool.acquire(() => backend, new Keys(['k'], undefined), call)))
    expect(permit.decision.source).toBe('fallback')
    expect(permit.signal.aborted).toBe(false)
    await permit.release()
  }
})

// promise: permits-law
test('a permit of the store is lost in an outage, and the share of the process does not know it', async () => {
  await using server = await RedisServer.start()
  await using store = new RedisStore({ url: server.url, commandTimeout: 30_000 })
  // For the outage. Limiters of one prefix have one share.
  await using impatient = new RedisStore({ url: server.url, commandTimeout: 200 })
  const clock = byClock(store)
  const onStoreFailure = { embedded: { share: 0.5 } }
  const policy = concurrency({ limit: 2, ttl: '1m' })
  const limiter = new RateLimiter(policy, { store, prefix: 'out', onStoreFailure })
  const inOutage = new RateLimiter(policy, { store: impatient, prefix: 'out', onStoreFailure })
  const before = acquired(await limiter.acquire('a'))
  expect(before.decision.source).toBe('store')
  await server.kill()
  const during = await until('the share decides', async () => {
    const permit = await inOutage.acquire('a')
    return permit.allowed && permit.decision.source === 'fallback' ? permit : undefined
  })
  const { signal } = before
  await clock.advance('54s')
  expect(signal.reason).toMatchObject({ code: 'PERMIT_LOST' })
  expect(await during.release()).toBe(true)
  await server.begin()
  await until('the store decides', async () => {
    const permit = await limiter.acquire('a', { cost: 2 })
    return permit.allowed && permit.decision.source === 'store'
  })
  await limiter.close()
})
