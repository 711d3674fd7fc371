/** `local: { lease }` over Redis. */
import {
  type CalendarWindowPolicy,
  calendarWindow,
  type Decision,
  type FixedWindowPolicy,
  fixedWindow,
  type GcraPolicy,
  gcra,
  type LocalDecisions,
  RateLimiter,
  RedisStore,
} from '../../ts/index.js'
import { drivenRedis, startDriven } from '../driven-redis.js'
import { rejectionOf } from '../failure.js'
import { until } from '../servers/until.js'

/** Leases end by this clock, and a real timer then gives their units back. */
const redis = drivenRedis()
let prefixes = 0

type LeasedPolicy = FixedWindowPolicy | CalendarWindowPolicy | GcraPolicy

/** A limiter with leases, and one without on the same states. */
function limitersOf(policy: LeasedPolicy, local: LocalDecisions = { lease: '1s' }) {
  const prefix = `lease-${prefixes++}`
  const limiter = new RateLimiter(policy, { store: redis.store, prefix, local })
  const plain = new RateLimiter(limiter.policies.default, { store: redis.store, prefix })
  return { limiter, plain }
}

/** The script calls that the server has run. */
async function scriptCalls(): Promise<number> {
  const stats = await redis.server.command<string>('INFO', 'commandstats')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

/** Takes units of cost 1 until a lease decides, and returns that decision. */
async function heat<D extends Decision>(limiter: { take(key: string): Promise<D> }, key = 'a'): Promise<D> {
  for (let calls = 0; calls < 1_000; calls++) {
    const decision = await limiter.take(key)
    if (decision.source === 'lease') {
      return decision
    }
  }
  throw new Error('there was no lease')
}

/** Waits until no limiter on the store holds units of a lease any more. */
async function nothingHeld(): Promise<void> {
  await until('the leases are over', async () => redis.store.status().leases.units === 0)
  await redis.time.idle()
}

const hourly = fixedWindow({ limit: 100_000, window: '1h' })
const fast = gcra({ limit: 100_000, period: '1s' })

test('calls on a hot key are decided without a call to Redis', async () => {
  const { limiter } = limitersOf(hourly)
  const first = await limiter.take('a')
  expect(first.source).toBe('store')
  await heat(limiter)
  const before = await scriptCalls()
  const decisions: Decision<'default'>[] = []
  for (let calls = 0; calls < 2_000; calls++) {
    decisions.push(await limiter.take('a'))
  }
  const leased = decisions.filter(({ source }) => source === 'lease')
  expect(leased.length).toBeGreaterThan(1_900)
  expect((await scriptCalls()) - before).toBeLessThan(100)
  for (const { allowed, status, limit, retryAfterMs, at, resetAfterMs, policies, ...numbers } of leased) {
    expect({ allowed, status, limit, retryAfterMs }).toEqual({
      allowed: true,
      status: 'allowed',
      limit: 100_000,
      retryAfterMs: 0,
    })
    expect(policies.default).toEqual({
      limit,
      capacity: limit,
      used: limit - numbers.remaining,
      remaining: numbers.remaining,
      retryAfterMs,
      nextAfterMs: 0,
      resetAfterMs,
    })
    expect(Math.abs(at + resetAfterMs - (first.at + first.resetAfterMs))).toBeLessThanOrEqual(2)
  }
  await limiter.close()
})

test('every unit is charged before it is used, and what is not used goes back', async () => {
  const { limiter, plain } = limitersOf(hourly)
  let used = 0
  while (used < 3_000) {
    await limiter.take('a')
    used++
    if (used % 100 === 0) {
      expect(100_000 - (await plain.peek('a')).remaining).toBeGreaterThanOrEqual(used)
    }
  }
  await redis.time.pass(1_000)
  await nothingHeld()
  expect((await plain.peek('a')).remaining).toBe(100_000 - used)
  await heat(limiter)
  await limiter.close()
  const charged = 100_000 - (await plain.peek('a')).remaining
  expect(charged).toBeGreaterThan(used)
  expect(charged).toBeLessThan(used + 1_000)
})

test('close gives everything back', async () => {
  const { limiter, plain } = limitersOf(hourly, { lease: '1m' })
  let used = 0
  for (; used < 500; used++) {
    await limiter.take('a')
  }
  expect((await plain.peek('a')).remaining).toBeLessThan(100_000 - used)
  await limiter.close()
  expect((await plain.peek('a')).remaining).toBe(100_000 - used)
})

test('keys that are not called often have no lease', async () => {
  const { limiter } = limitersOf(hourly, { lease: '50ms' })
  for (let turn = 0; turn < 5; turn++) {
    const keys = Array.from({ length: 400 }, (_, key) => `cold-${key}`)
    const decisions = await limiter.takeMany(keys)
    expect(new Set(decisions.map(({ source }) => source))).toEqual(new Set(['store']))
    await redis.time.pass(60)
  }
  await limiter.close()
})

test('near the limit nothing is held, and the last unit is admitted', async () => {
  const { limiter, plain } = limitersOf(fixedWindow({ limit: 300, window: '1h' }))
  let allowed = 0
  for (let calls = 0; calls < 600; calls++) {
    const decision = await limiter.take('a')
    if (decision.allowed) {
      allowed++
    } else {
      expect(decision).toMatchObject({ source: 'store', status: 'refused', remaining: 0 })
    }
  }
  expect(allowed).toBe(300)
  expect((await plain.peek('a')).remaining).toBe(0)
  await limiter.close()
})

test('calls that find nothing left are decided together: each unit is used, and refusals are exact', async () => {
  const { limiter } = limitersOf(fixedWindow({ limit: 1_000, window: '1h' }))
  await heat(limiter)
  const before = await scriptCalls()
  const together = () => Promise.all(Array.from({ length: 700 }, () => limiter.take('a')))
  const decisions = [...(await together()), ...(await together())]
  const refused = decisions.filter(({ allowed }) => !allowed)
  expect(refused.length).toBeGreaterThan(300)
  for (const { status, source, remaining, retryAfterMs } of refused) {
    expect({ status, source, remaining }).toEqual({ status: 'refused', source: 'store', remaining: 0 })
    expect(retryAfterMs).toBeGreaterThan(3_500_000)
  }
  // Each has its own decision.
  expect(new Set(refused).size).toBe(refused.length)
  expect((await scriptCalls()) - before).toBeLessThan(20)
  await limiter.close()
})

test('costs above 1 use leases, and those above a lease ask Redis', async () => {
  const { limiter, plain } = limitersOf(hourly)
  let used = 0
  const sources = new Set<string>()
  for (let calls = 0; calls < 300; calls++) {
    const decision = await limiter.take('a', 7)
    expect(decision.allowed).toBe(true)
    used += 7
    sources.add(decision.source)
  }
  expect(sources).toEqual(new Set(['store', 'lease']))
  expect(await limiter.take('a', 90_000)).toMatchObject({ allowed: true, source: 'store' })
  await limiter.close()
  expect((await plain.peek('a')).remaining).toBe(10_000 - used)
})

test('takeUpTo uses a lease that has all units', async () => {
  const { limiter, plain } = limitersOf(hourly, { lease: '1m' })
  for (let calls = 0; calls < 400; calls++) {
    await limiter.take('a')
  }
  const some = await limiter.takeUpTo('a', 5)
  expect(some).toMatchObject({ source: 'lease', granted: 5, allowed: true })
  expect(await limiter.takeUpTo('a', 200_000)).toMatchObject({ source: 'store', status: 'allowed-last' })
  expect(await limiter.refund(some, 2)).toBe(2)
  await limiter.close()
  expect((await plain.peek('a')).remaining).toBeGreaterThanOrEqual(2)
})

describe('a refund', () => {
  test('goes back to the lease while it lasts', async () => {
    const { limiter, plain } = limitersOf(hourly, { lease: '1m' })
    const decision = await heat(limiter)
    const before = await scriptCalls()
    expect(await limiter.refund(decision)).toBe(1)
    expect(await limiter.refund(decision)).toBe(0)
    expect(await scriptCalls()).toBe(before)
    expect((await limiter.take('a')).remaining).toBe(decision.remaining)
    const charged = 100_000 - (await plain.peek('a')).remaining
    await limiter.close()
    expect(100_000 - (await plain.peek('a')).remaining).toBeLessThan(charged)
  })

  test('comes between the calls before it and those after it', async () => {
    const { limiter } = limitersOf(fixedWindow({ limit: 300, window: '1h' }))
    const decision = await limiter.take('a')
    expect(decision.source).toBe('store')
    for (let calls = 0; calls < 400; calls++) {
      await limiter.take('a')
    }
    const calls = [limiter.take('a'), limiter.refund(decision), limiter.take('a')] as const
    expect(await Promise.all(calls)).toMatchObject([{ status: 'refused' }, 1, { status: 'allowed-last' }])
    await limiter.close()
  })

  test('goes back to Redis afterwards', async () => {
    const { limiter, plain } = limitersOf(hourly, { lease: '50ms' })
    const decision = await heat(limiter)
    await redis.time.pass(50)
    await nothingHeld()
    const { remaining } = await plain.peek('a')
    expect(await limiter.refund(decision)).toBe(1)
    expect((await plain.peek('a')).remaining).toBe(remaining + 1)
    await limiter.close()
  })

  test('of many decisions of one lease returns no unit of a rate that has drained', async () => {
    // A unit each 100 ms, and room for many.
    const { limiter, plain } = limitersOf(gcra({ limit: 10, period: '1s', burst: 10_000 }), { lease: '200ms' })
    const leased: Decision<'default'>[] = []
    let used = 0
    while (leased.length < 100) {
      const decision = await limiter.take('a')
      used++
      if (decision.source === 'lease') {
        leased.push(decision)
      }
    }
    await redis.time.pass(500)
    await nothingHeld()
    let refunded = 0
    for (const decision of leased) {
      refunded += await limiter.refund(decision)
    }
    expect(refunded).toBeGreaterThan(0)
    const { used: left } = await plain.peek('a')
    // In half a second five units drain.
    expect(left).toBeGreaterThanOrEqual(used - refunded - 5)
    await limiter.close()
  })
})

describe("the limiter's own changes end the lease first", () => {
  const leased = async () => {
    const { limiter, plain } = limitersOf(hourly, { lease: '1m' })
    for (let calls = 0; calls < 300; calls++) {
      await limiter.take('a')
    }
    expect((await plain.peek('a')).remaining).toBeLessThan(99_700)
    return { limiter, plain }
  }

  test('penalize', async () => {
    const { limiter, plain } = await leased()
    expect(await limiter.penalize('a', 100_000)).toBe(99_700)
    expect(await limiter.take('a')).toMatchObject({ allowed: false, source: 'store' })
    expect((await plain.peek('a')).remaining).toBe(0)
    await limiter.close()
  })

  test('block', async () => {
    const { limiter, plain } = await leased()
    const calls = [limiter.take('a'), limiter.block('a', '1h'), limiter.take('a')] as const
    expect(await calls[0]).toMatchObject({ allowed: true })
    expect(await calls[2]).toMatchObject({ status: 'blocked', source: 'store' })
    await limiter.unblock('a')
    expect((await limiter.take('a')).allowed).toBe(true)
    await limiter.close()
    expect((await plain.peek('a')).remaining).toBe(99_698)
  })

  test('reset', async () => {
    const { limiter, plain } = await leased()
    const decision = await heat(limiter)
    await limiter.reset('a')
    expect((await plain.peek('a')).remaining).toBe(100_000)
    await redis.time.pass(1)
    expect((await limiter.take('a')).source).toBe('store')
    // Its window has ended with the reset.
    expect(await limiter.refund(decision)).toBe(0)
    await limiter.close()
    expect((await plain.peek('a')).remaining).toBe(99_999)
  })

  test('override', async () => {
    const { limiter, plain } = await leased()
    await limiter.override('a', { limit: 300 }, { ttl: '1h' })
    expect(await limiter.take('a')).toMatchObject({ allowed: false, source: 'store', limit: 300 })
    await limiter.clearOverride('a')
    expect((await limiter.take('a')).allowed).toBe(true)
    await limiter.close()
    expect((await plain.peek('a')).remaining).toBe(99_699)
  })

  test('units that were requested before a reset are dropped', async () => {
    const { limiter, plain } = limitersOf(hourly, { lease: '1m' })
    await heat(limiter)
    for (let turn = 0; turn < 20; turn++) {
      const calls = Array.from({ length: 300 }, () => limiter.take('a'))
      const reset = limiter.reset('a')
      await Promise.all([...calls, reset])
      expect((await plain.peek('a')).remaining).toBe(100_000)
    }
    await limiter.close()
    expect((await plain.peek('a')).remaining).toBe(100_000)
  })
})

test('wait schedules its slot in Redis', async () => {
  const options = { store: redis.store, prefix: 'waiting', local: { lease: '100ms' } } as const
  const limiter = new RateLimiter(fast, options)
  await heat(limiter)
  expect(await limiter.wait('a')).toMatchObject({ allowed: true, source: 'store', waitedMs: 0 })
  await limiter.close()
})

test('a rate has a burst that is less by the units of a lease, also under an override', async () => {
  const { limiter } = limitersOf(gcra({ limit: 1_000, period: '1s', burst: 500 }), { lease: '100ms' })
  expect(limiter.policies.default).toMatchObject({ limit: 1_000, burst: 400 })
  expect(await limiter.take('a')).toMatchObject({ limit: 1_000, capacity: 400 })
  await limiter.override('a', { limit: 2_000, burst: 900 }, { ttl: '1h' })
  expect(await limiter.take('a')).toMatchObject({ limit: 2_000, capacity: 700 })
  const failure = await rejectionOf(limiter.override('a', { limit: 10_000 }, { ttl: '1h' }))
  expect(failure).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining('override: gcra') })
  await limiter.close()
})

test('several policies are leased together', async () => {
  const policies = { fast, day: calendarWindow({ limit: 5_000, every: 'day', timeZone: 'UTC' }) }
  const limiter = new RateLimiter(policies, { store: redis.store, prefix: 'several', local: { lease: '100ms' } })
  const decision = await heat(limiter)
  expect(Object.keys(decision.policies)).toEqual(['fast', 'day'])
  let allowed = 0
  for (let calls = 0; calls < 6_000; calls++) {
    allowed += (await limiter.take('a')).allowed ? 1 : 0
  }
  expect(allowed).toBeLessThan(5_000)
  expect((await limiter.take('a')).policy).toBe('day')
  await limiter.close()
})

test('keys with parts are leased by all parts, and a change of one part ends their leases', async () => {
  const per = (name: string) => fixedWindow({ limit: 100_000, window: '1h', per: name })
  const policies = { ip: per('ip'), account: per('account') } as const
  const limiter = new RateLimiter(policies, { store: redis.store, prefix: 'parts', local: { lease: '1m' } })
  const key = { ip: 'x', account: 'a' } as never
  let sources: string[] = []
  for (let calls = 0; calls < 300; calls++) {
    sources.push((await limiter.take(key)).source)
  }
  expect(sources.at(-1)).toBe('lease')
  await limiter.block({ ip: 'x' } as never, '1h')
  expect((await limiter.take(key)).status).toBe('blocked')
  await limiter.unblock({ ip: 'x' } as never)
  sources = [(await limiter.take(key)).source, (await limiter.take({ ip: 'x', account: 'b' } as never)).source]
  expect(sources).toEqual(['store', 'store'])
  await limiter.close()
})

test('keys that look like ids have their own leases', async () => {
  const { limiter } = limitersOf(hourly)
  const leased = await heat(limiter, '\0["a"]')
  expect(leased.remaining).toBeGreaterThan(0)
  expect((await limiter.take('a')).remaining).toBe(99_999)
  await heat(limiter, '\x000:1:a:a')
  expect((await limiter.take('a', { tag: 'a' })).remaining).toBe(99_999)
  await limiter.close()
})

test('a lease ends with its window', async () => {
  const window = 1_000
  const { limiter } = limitersOf(calendarWindow({ limit: 100_000, every: window }), { lease: '1m' })
  const leasedIn = new Set<number>()
  for (let step = 0; step < 5 * 50; step++) {
    for (let calls = 0; calls < 10; calls++) {
      const { at, resetAfterMs, source } = await limiter.take('a')
      if (source === 'lease') {
        const index = Math.floor(at / window)
        leasedIn.add(index)
        expect(Math.abs(at + resetAfterMs - (index + 1) * window)).toBeLessThan(2)
      }
    }
    await redis.time.pass(window / 50)
  }
  expect(leasedIn.size).toBeGreaterThanOrEqual(5)
  await limiter.close()
})

test('cached refusals and leases work together', async () => {
  const { limiter } = limitersOf(fixedWindow({ limit: 2_000, window: '1h' }), { lease: '1s', refusals: '10s' })
  const sources = new Map<string, number>()
  for (let calls = 0; calls < 4_000; calls++) {
    const { source, status } = await limiter.take('a')
    sources.set(`${status} ${source}`, (sources.get(`${status} ${source}`) ?? 0) + 1)
  }
  const allowed = ['allowed store', 'allowed-last store', 'allowed lease', 'allowed-last lease']
  expect(allowed.reduce((sum, name) => sum + (sources.get(name) ?? 0), 0)).toBe(2_000)
  expect(sources.get('refused cache')).toBeGreaterThan(1_990)
  await limiter.close()
})

test('the status of the store tells what is held', async () => {
  const store = redis.time.store()
  const limiter = new RateLimiter(hourly, { store, prefix: 'status', local: { lease: '1m' } })
  expect(store.status().leases).toEqual({ keys: 0, units: 0 })
  for (let calls = 0; calls < 300; calls++) {
    await limiter.take('a')
  }
  const { remaining } = await until('no units are on their way', async () => {
    const decision = await limiter.peek('a')
    return store.status().leases.units === 100_000 - 300 - decision.remaining ? decision : undefined
  })
  expect(remaining).toBeLessThan(100_000 - 300)
  expect(store.status().leases.keys).toBe(1)
  await limiter.close()
  expect(store.status().leases).toEqual({ keys: 0, units: 0 })
  await store.close()
})

test('a warning tells that another limiter of the prefix has another lease', async () => {
  const warnings: string[] = []
  const stores = [1, 2].map(() => new RedisStore({ url: redis.server.url, commandTimeout: 30_000 }))
  const leases = ['100ms', '200ms'] as const
  const limiters = stores.map((store, index) => {
    store.on('warning', ({ code, message }) => code !== 'VULNERABLE_SERVER' && warnings.push(`${code} ${message}`))
    return new RateLimiter(fast, { store, prefix: 'unequal', local: { lease: leases[index] as '100ms' } })
  })
  const taken = () => Promise.all(limiters.map((limiter) => limiter.take('a')))
  await taken()
  // The policies are registered with the first answer.
  await until('both are registered', async () => {
    await taken()
    return warnings.length > 0
  })
  expect(warnings[0]).toMatch(/^POLICIES_DIFFER .* burst=\d+ lease=[12]00ms .* burst=\d+ lease=[12]00ms /)
  for (const each of [...limiters, ...stores]) {
    await each.close()
  }
})

test('while Redis is away a lease is used to its end, then the fallback decides', async () => {
  const { server, time } = await startDriven()
  const store = time.store({ commandTimeout: 2_000 })
  const options = { store, prefix: 'away', local: { lease: '1s' }, onStoreFailure: 'refuse' } as const
  const limiter = new RateLimiter(hourly, options)
  await heat(limiter)
  for (let calls = 0; calls < 500; calls++) {
    await limiter.take('a')
  }
  await server.stop()
  expect((await limiter.take('a')).source).toBe('lease')
  await until('the store is known to be down', async () => store.status().state === 'down')
  expect((await limiter.take('a')).source).toBe('lease')
  await time.pass(1_000)
  expect(await Promise.all(Array.from({ length: 500 }, () => limiter.take('a')))).toEqual(
    Array(500).fill(expect.objectContaining({ status: 'refused', source: 'none' })),
  )
  await limiter.close()
  await store.close()
})

test('calls that fail together fail at once, each with its error', async () => {
  const { server, time } = await startDriven()
  const store = time.store()
  const limiter = new RateLimiter(hourly, { store, prefix: 'failing', local: { lease: '50ms' } })
  await heat(limiter)
  await server.command('ACL', 'SETUSER', 'default', '-evalsha', '-eval')
  await time.pass(50)
  const refusedCommands = async () =>
    Number(/errorstat_NOPERM:count=(\d+)/.exec(await server.command<string>('INFO', 'errorstats'))?.[1] ?? 0)
  const before = await refusedCommands()
  const calls = await Promise.allSettled(Array.from({ length: 500 }, () => limiter.take('a')))
  expect(calls.filter(({ status }) => status === 'fulfilled')).toEqual([])
  // Not one after another.
  expect((await refusedCommands()) - before).toBeLessThan(20)
  await server.command('ACL', 'SETUSER', 'default', '+evalsha', '+eval')
  expect((await limiter.take('a')).allowed).toBe(true)
  await limiter.close()
  await store.close()
  await server.stop()
})
