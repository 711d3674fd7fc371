/** The metrics of an instrumented limiter, which otherwise behaves like the limiter. */
import { metrics } from '@opentelemetry/api'
import {
  concurrency,
  fixedWindow,
  gcra,
  MemoryStore,
  RateLimiter,
  RedisStore,
  slidingLog,
  TollgateError,
  tiers,
  watchPolicies,
} from '../../ts/index.js'
import { instrument } from '../../ts/metrics/index.js'
import { withRateLimit } from '../../ts/middleware/fetch.js'
import { FakeClock } from '../clock.js'
import { rejectionOf } from '../failure.js'
import { freePort } from '../servers/ports.js'
import { type Equal, holds } from '../type-proof.js'
import { Collector } from './collect.js'

const SECRET = 'a-key-that-nobody-may-see'

let collector: Collector
beforeEach(() => {
  collector = new Collector()
})

/** Counters by series, and the counts of the histogram. */
async function recorded() {
  const all = await collector.collect()
  const of = (name: string) => all[name]?.series ?? {}
  return {
    decisions: of('tollgate.decisions'),
    errors: of('tollgate.errors'),
    durations: of('tollgate.decision.duration'),
    limiters: of('tollgate.limiters'),
    text: JSON.stringify(all),
  }
}

function options(name = 'api') {
  return { name, meter: collector.meter }
}

function windows(limits: { readonly minute: number; readonly hour: number }) {
  const policies = {
    minute: fixedWindow({ limit: limits.minute, window: '1m' }),
    hour: fixedWindow({ limit: limits.hour, window: '1h' }),
  }
  return new RateLimiter(policies, { store: new MemoryStore({ clock: new FakeClock().read }) })
}

test('tryTake is recorded as a take', async () => {
  const limiter = instrument(new RateLimiter(fixedWindow({ limit: 1, window: '1h' })), options())
  expect([await limiter.tryTake('a'), await limiter.tryTake('a'), await limiter.tryTake('b', 2)]).toEqual([
    true,
    false,
    false,
  ])
  expect((await rejectionOf(limiter.tryTake(...(['a', 1, 2] as unknown as ['a', 1])))).code).toBe('INVALID_OPTION')
  const { decisions, durations } = await recorded()
  expect(decisions).toEqual({
    'limiter=api policy=default status=allowed-last source=store': 1,
    'limiter=api policy=default status=refused source=store': 1,
    'limiter=api policy=default status=impossible source=store': 1,
  })
  expect(Object.keys(durations)).toHaveLength(3)
})

test('decisions are counted by limiter, policy, status and source, and timed', async () => {
  const limiter = instrument(windows({ minute: 2, hour: 3 }), options())
  for (const key of ['a', 'a', 'a', 'b']) await limiter.take(key)
  limiter.takeSync('b', 4)
  await limiter.block('c', '1m')
  limiter.takeSync('c')
  const { decisions, durations, errors } = await recorded()
  expect(decisions).toEqual({
    'limiter=api policy=minute status=allowed source=store': 2,
    'limiter=api policy=minute status=allowed-last source=store': 1,
    'limiter=api policy=minute status=refused source=store': 1,
    'limiter=api policy=minute status=impossible source=store': 1,
    'limiter=api policy=minute status=blocked source=store': 1,
  })
  expect(durations).toEqual(decisions)
  expect(errors).toEqual({})
})

test('a refusal counts for the policy that refused, and named limits of one policy count by name', async () => {
  const several = instrument(windows({ minute: 3, hour: 2 }), options('several'))
  for (let call = 0; call < 3; call++) await several.take('a')
  const limits = { second: { limit: 1, window: '1s' }, hour: { limit: 2, window: '1h' } } as const
  const logs = instrument(new RateLimiter(slidingLog({ limits })), options('logs'))
  await logs.take('a')
  await logs.take('a')
  const { decisions } = await recorded()
  expect(decisions['limiter=several policy=hour status=refused source=store']).toBe(1)
  expect(decisions['limiter=logs policy=second status=refused source=store']).toBe(1)
})

test('takeMany counts each key; takeUpTo, reserve and wait count, and the time of wait is not recorded', async () => {
  const limiter = instrument(new RateLimiter(gcra({ limit: 2, period: '1h' })), options())
  await limiter.takeMany(['a', 'a', 'a', 'b'])
  await limiter.takeUpTo('c', 5)
  await limiter.reserve('d', 3)
  await limiter.wait('e')
  const { decisions, durations } = await recorded()
  const line = (status: string) => `limiter=api policy=default status=${status} source=store`
  expect(decisions).toEqual({
    [line('allowed')]: 3,
    [line('allowed-last')]: 2,
    [line('refused')]: 1,
    [line('impossible')]: 1,
  })
  expect(durations).toEqual({ ...decisions, [line('allowed')]: 2 })
})

test('acquire counts as a decision, without its time', async () => {
  const limiter = instrument(new RateLimiter(concurrency({ limit: 1 })), options())
  const permit = await limiter.acquire('a')
  await limiter.acquire('a')
  const { decisions, durations } = await recorded()
  const line = (status: string) => `limiter=api policy=default status=${status} source=store`
  expect(decisions).toEqual({ [line('allowed-last')]: 1, [line('refused')]: 1 })
  expect(durations).toEqual({})
  expect(permit.allowed && (await permit.release())).toBe(true)
})

test('a refused wait counts as a decision, whether it rejects or resolves', async () => {
  const limiter = instrument(new RateLimiter(gcra({ limit: 1, period: '1h', burst: 1 })), options())
  await limiter.wait('a')
  expect(await rejectionOf(limiter.wait('a'))).toMatchObject({ code: 'WAIT_TOO_LONG', decision: { status: 'refused' } })
  expect((await limiter.wait('a', { onTooLong: 'resolve' })).status).toBe('refused')
  await rejectionOf(limiter.wait('a', { cost: 2 }))
  await limiter.block('a', '1h')
  await rejectionOf(limiter.wait('a'))
  const { decisions, errors, durations } = await recorded()
  const line = (status: string) => `limiter=api policy=default status=${status} source=store`
  expect(decisions).toEqual({
    [line('allowed-last')]: 1,
    [line('refused')]: 2,
    [line('impossible')]: 1,
    [line('blocked')]: 1,
  })
  expect([errors, durations]).toEqual([{}, {}])
})

test('calls that take no units are not counted', async () => {
  const limiter = instrument(new RateLimiter(gcra({ limit: 10, period: '1h' })), options())
  await limiter.peek('a')
  await limiter.penalize('a', 2)
  await limiter.override('a', { limit: 20 }, { ttl: '1h' })
  await limiter.clearOverride('a')
  await limiter.block('a', '1h')
  await limiter.unblock('a')
  await limiter.reset('a')
  await limiter.ready()
  expect(await recorded()).toMatchObject({ decisions: {}, errors: {}, durations: {} })
})

test('failures are counted by their code, and reach the caller', async () => {
  const limiter = instrument(new RateLimiter(gcra({ limit: 10, period: '1h' })), options())
  const code = async (call: Promise<unknown>) => (await rejectionOf(call)).code
  expect(await code(limiter.take(''))).toBe('INVALID_KEY')
  expect(() => limiter.takeSync('a', 0)).toThrow(TollgateError)
  expect(await code(limiter.takeUpTo('a', -1))).toBe('INVALID_COST')
  expect(await code(limiter.wait('a', { maxWait: -1 }))).toBe('INVALID_OPTION')
  const many = await rejectionOf(limiter.takeMany(['a', '', 'b', '']))
  expect(many.results).toHaveLength(4)
  await limiter.takeMany('a' as unknown as string[]).catch(() => {})
  await limiter.close()
  expect(await code(limiter.reserve('a', 1))).toBe('CLOSED')
  const { decisions, errors, durations } = await recorded()
  expect(errors).toEqual({
    'limiter=api error.type=INVALID_KEY': 4,
    'limiter=api error.type=INVALID_COST': 2,
    'limiter=api error.type=INVALID_OPTION': 1,
    'limiter=api error.type=CLOSED': 1,
  })
  expect(decisions).toEqual({ 'limiter=api policy=default status=allowed source=store': 2 })
  const { 'limiter=api error.type=INVALID_OPTION': _untimed, ...timed } = errors
  expect(durations).toEqual({ ...decisions, ...timed })
})

test('the source of decisions during an outage is recorded', async () => {
  const url = `redis://127.0.0.1:${await freePort()}`
  await using store = new RedisStore({ url, commandTimeout: 50 })
  const policy = gcra({ limit: 10, period: '1h' })
  const limiters = {
    share: new RateLimiter(policy, { store, prefix: 'share', onStoreFailure: { embedded: { share: 0.1 } } }),
    none: new RateLimiter(policy, { store, prefix: 'none', onStoreFailure: 'refuse' }),
    fails: new RateLimiter(policy, { store, prefix: 'fails' }),
  }
  for (const [name, limiter] of Object.entries(limiters)) {
    await instrument(limiter, options(name))
      .take(SECRET)
      .catch(() => {})
  }
  const { decisions, errors } = await recorded()
  expect(decisions).toEqual({
    'limiter=share policy=default status=allowed-last source=fallback': 1,
    'limiter=none policy=default status=refused source=none': 1,
  })
  expect(errors).toEqual({ 'limiter=fails error.type=STORE_UNAVAILABLE': 1 })
})

test('limiters are counted by the place of their counts', async () => {
  await using store = new RedisStore(`redis://127.0.0.1:${await freePort()}`)
  const policy = gcra({ limit: 10, period: '1h' })
  instrument(new RateLimiter(policy, { store, prefix: 'shared' }), options())
  instrument(new RateLimiter(policy), options())
  expect((await recorded()).limiters).toEqual({
    'limiter=api store.kind=redis': 1,
    'limiter=api store.kind=embedded': 1,
  })
})

// promise: no-key-in-metrics
test('metrics contain no key', async () => {
  const limiter = instrument(new RateLimiter(gcra({ limit: 1, period: '1h' })), options())
  await limiter.take(SECRET)
  await limiter.take(SECRET)
  await limiter.takeMany([SECRET, `${SECRET}\ud800`]).catch(() => {})
  const { text, errors } = await recorded()
  expect(errors).toEqual({ 'limiter=api error.type=INVALID_KEY': 1 })
  expect(text).not.toContain(SECRET)
})

test("units follow OpenTelemetry's conventions, and the buckets reach from microseconds to seconds", async () => {
  const limiter = instrument(new RateLimiter(gcra({ limit: 1, period: '1h' })), options())
  await limiter.take('a')
  await limiter.take('').catch(() => {})
  const all = await collector.collect()
  expect(all['tollgate.decisions']?.unit).toBe('{decision}')
  expect(all['tollgate.errors']?.unit).toBe('{error}')
  const { unit, boundaries = [] } = all['tollgate.decision.duration'] ?? {}
  expect(unit).toBe('s')
  expect(boundaries[0]).toBe(0.000005)
  expect(boundaries.at(-1)).toBe(2.5)
  expect([...boundaries].sort((a, b) => a - b)).toEqual(boundaries)
})

test('limiters of one name add up', async () => {
  const make = () => instrument(new RateLimiter(gcra({ limit: 9, period: '1h' })), options())
  await make().take('a')
  await make().take('a')
  expect((await recorded()).decisions).toEqual({ 'limiter=api policy=default status=allowed source=store': 2 })
})

test('it has the class and all members of the limiter, and they do the same', async () => {
  const plain = new RateLimiter(gcra({ limit: 3, period: '1h' }))
  const limiter = instrument(plain, options())
  const members: (string | symbol)[] = []
  for (let owner: object = plain; owner !== Object.prototype; owner = Object.getPrototypeOf(owner)) {
    members.push(...Reflect.ownKeys(owner))
  }
  expect(members).toEqual(expect.arrayContaining(['take', 'policies', 'wait', Symbol.asyncDispose]))
  expect(members.filter((name) => name !== 'constructor' && !Object.hasOwn(limiter, name))).toEqual([])
  expect(limiter).toBeInstanceOf(RateLimiter)
  expect(limiter.policies).toBe(plain.policies)
  const decision = await limiter.take('a', 2)
  expect((await plain.peek('a')).remaining).toBe(1)
  // A decision of either belongs to the other, too.
  expect(await plain.refund(decision, 1)).toBe(1)
  expect(await limiter.refund(decision)).toBe(1)
  const reservation = await limiter.reserve('b', 2)
  expect(reservation.allowed && (await reservation.cancel())).toMatchObject({ settled: true, refunded: 2 })
  await limiter[Symbol.asyncDispose]()
  await expect(plain.take('a')).rejects.toMatchObject({ code: 'CLOSED' })
})

test('it has the policies and tiers of an update, also in headers', async () => {
  const plain = new RateLimiter(gcra({ limit: 3, period: '1h' }))
  const limiter = instrument(plain, options())
  const watch = watchPolicies(limiter, () => gcra({ limit: 5, period: '2h' }))
  await watch.refresh()
  watch.stop()
  expect(limiter.policies.default).toMatchObject({ limit: 5, period: 7_200_000 })
  expect(limiter.policies).toBe(plain.policies)
  const handle = withRateLimit(() => new Response('ok'), { limiter, key: () => 'a' })
  const response = await handle(new Request('http://localhost/'))
  expect(response.headers.get('RateLimit-Policy')).toBe('"default";q=5;w=7200')
  const free = (limit: number) => tiers({ free: gcra({ limit, period: '1h' }) })
  const tiered = instrument(new RateLimiter(free(1)), options('tiered'))
  tiered.update(free(2))
  expect(tiered.tiers.free.default.limit).toBe(2)
})

test('direct calls of the limiter are not recorded', async () => {
  const plain = new RateLimiter(gcra({ limit: 3, period: '1h' }))
  const own = Object.getOwnPropertyNames(plain)
  instrument(plain, options())
  await plain.take('a')
  expect(Object.getOwnPropertyNames(plain)).toEqual(own)
  expect((await recorded()).decisions).toEqual({})
})

test('the default meter is that of the global provider', async () => {
  metrics.setGlobalMeterProvider(collector.provider)
  try {
    instrument(new RateLimiter(gcra({ limit: 3, period: '1h' })), { name: 'global' }).takeSync('a')
  } finally {
    metrics.disable()
  }
  // Without a provider nothing is recorded, and calls are decided as usual.
  const limiter = instrument(new RateLimiter(gcra({ limit: 3, period: '1h' })), { name: 'nobody' })
  expect(limiter.takeSync('a').allowed).toBe(true)
  expect((await recorded()).decisions).toEqual({ 'limiter=global policy=default status=allowed source=store': 1 })
})

test.each([
  ['a name is needed', {}, 'name must match'],
  ['a name is short and plain', { name: 'user:42' }, 'name must match'],
  ['a meter makes counters', { name: 'api', meter: {} }, 'meter must be a Meter'],
  ['options are known', { name: 'api', label: 'x' }, 'instrument has no option "label"'],
])('%s', (_rule, given, message) => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1h' }))
  expect(() => instrument(limiter, given as { name: string })).toThrow(message)
  expect(() => instrument({} as typeof limiter, { name: 'api' })).toThrow('limiter must be a RateLimiter')
})

test('the type is that of the limiter', () => {
  const never = (store: RedisStore) => {
    const embedded = new RateLimiter({ a: gcra({ limit: 1, period: '1s', per: 'ip' }) })
    const measured = instrument(embedded, options())
    holds<Equal<typeof measured, typeof embedded>>()
    const remote = instrument(
      new RateLimiter(fixedWindow({ limit: 1, window: '1s' }), { store, prefix: 'api' }),
      options(),
    )
    // @ts-expect-error takeSync is not available over Redis
    remote.takeSync('a')
    // @ts-expect-error a window is not a rate
    remote.wait('a')
  }
  expect(never).toBeInstanceOf(Function)
})

test('units of admitted calls are counted by meter', async () => {
  const limiter = instrument(
    new RateLimiter({
      calls: gcra({ limit: 10, period: '1h' }),
      tokens: gcra({ limit: 1_000, period: '1h', meter: 'tokens' }),
      spend: gcra({ limit: 50, period: '1h', meter: 'cents', defaultCost: 2 }),
    }),
    options(),
  )
  await limiter.take('a', { cost: { tokens: 100 } })
  limiter.takeSync('a', { cost: { tokens: 20, cents: 0 } })
  await limiter.tryTake('a', { cost: { tokens: 3 } })
  await limiter.takeMany(['b', 'c'], [{ tokens: 1 }, { tokens: 2, calls: 2 }])
  await rejectionOf(limiter.takeMany(['b', ''], { cost: { tokens: 4 } }))
  await limiter.reserve('d', { tokens: 500 })
  await limiter.wait('d', { cost: { tokens: 70 } })
  // Refused and failed calls take nothing.
  await limiter.take('a', { cost: { tokens: 5_000 } })
  await rejectionOf(limiter.take('a', { cost: { tokens: -1 } }))
  const { 'tollgate.units': units } = await collector.collect()
  expect(units).toMatchObject({
    unit: '{unit}',
    series: {
      'limiter=api meter=tokens': 700,
      'limiter=api meter=cents': 14,
      'limiter=api meter=calls': 9,
    },
  })
})

test('limiters without meters have no units', async () => {
  const limiter = instrument(new RateLimiter(gcra({ limit: 10, period: '1h' })), options())
  await limiter.take('a', 5)
  const all = await collector.collect()
  expect(all['tollgate.units']?.series ?? {}).toEqual({})
})
