/** Valid and invalid values of the option `local: { lease }`. */
import { leasedPolicySet } from '../../ts/backends/local/leased-policies.js'
import {
  concurrency,
  fixedWindow,
  gcra,
  type LocalDecisions,
  leakyBucket,
  MemoryStore,
  type Policy,
  RateLimiter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../ts/index.js'
import { policySetOf } from '../../ts/policies/policy-set.js'
import { failureOf } from '../failure.js'
import { openedRedis } from '../redis/opened.js'

const redis = openedRedis()

const hourly = fixedWindow({ limit: 100_000, window: '1h' })

test('on the embedded store the option is checked and has no effect', async () => {
  const open = (local: LocalDecisions) =>
    new RateLimiter(gcra({ limit: 100_000, period: '1s' }), { store: new MemoryStore(), local })
  const limiter = open({ lease: '100ms' })
  expect(limiter.policies.default).toEqual(gcra({ limit: 100_000, period: '1s' }))
  expect((await limiter.take('a')).source).toBe('store')
  expect((await failureOf(() => open({ lease: '1s' }))).code).toBe('INVALID_OPTION')
})

test('leases with bans are INVALID_OPTION', () => {
  const options = { store: redis.store, prefix: 'invalid', local: { lease: '100ms' }, blockFor: '1m' } as const
  expect(failureOf(() => new RateLimiter(gcra({ limit: 10, period: '1s' }), options))).toMatchObject({
    code: 'INVALID_OPTION',
    message: 'local.lease cannot be used with ban or blockFor: the store has to count every refusal',
  })
})

test('leases and cached refusals with concurrency are INVALID_OPTION', () => {
  const policies = { most: concurrency({ limit: 4 }), rate: gcra({ limit: 100, period: '1s' }) }
  for (const local of [{ lease: '100ms' }, { refusals: '1s' }] as const) {
    const options = { store: redis.store, prefix: 'invalid', local }
    expect(failureOf(() => new RateLimiter(policies, options))).toMatchObject({
      code: 'INVALID_OPTION',
      message: 'local cannot be used with concurrency: the store has to give every permit',
    })
  }
})

test.each<[string, Policy, LocalDecisions, string]>([
  [
    'no burst is left',
    gcra({ limit: 100, period: '1s', burst: 10 }),
    { lease: '100ms' },
    'local.lease must be so short that fewer units than the burst come back in it: in 100ms 10 units come back, and the burst of gcra is 10; choose a larger burst, or a lease of at most 90ms',
  ],
  [
    'no lease fits',
    leakyBucket({ capacity: 1, leak: { units: 1, every: '1s' } }),
    { lease: '100ms' },
    'in 100ms 1 units come back, and the burst of leakyBucket is 1; choose a larger burst, or no lease',
  ],
  [
    'debt is no burst',
    tokenBucket({ capacity: 5, refill: { tokens: 100, every: '1s' }, debt: 50 }),
    { lease: '100ms' },
    'the burst of tokenBucket is 5; choose a larger burst, or a lease of at most 40ms',
  ],
  [
    'an algorithm',
    slidingLog({ limit: 10, window: '1s' }),
    { lease: '100ms' },
    'fixedWindow or calendarWindow, got slidingLog',
  ],
  ['another algorithm', slidingWindow({ limit: 10, window: '1s' }), { lease: '100ms' }, 'got slidingWindow'],
  [
    'interval refill',
    tokenBucket({ capacity: 50, refill: { tokens: 1, every: '1s' }, refillMode: 'interval' }),
    { lease: '100ms' },
    "got tokenBucket with refillMode: 'interval'",
  ],
  [
    'countRefused',
    fixedWindow({ limit: 10, window: '1s', countRefused: true }),
    { lease: '100ms' },
    'local.lease cannot be used with countRefused (fixedWindow): the store has to count every attempt',
  ],
  ['too short', hourly, { lease: '9ms' }, 'local.lease must be from 10 milliseconds to 1 minute, got "9ms"'],
  ['too long', hourly, { lease: '61s' }, 'local.lease must be from 10 milliseconds to 1 minute, got "61s"'],
  ['nothing', hourly, {}, "local takes refusals, lease or both, as in local: { refusals: '1s', lease: '100ms' }"],
])('%s is INVALID_OPTION', async (_, policy, local, message) => {
  const failure = await failureOf(() => new RateLimiter(policy, { store: redis.store, prefix: 'invalid', local }))
  expect(failure).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(message) })
})

// promise: leases-keep-law
test("no tier's burst is above the largest burst less the units of the largest rate within a lease", () => {
  const fast = gcra({ limit: 2_000, period: '1s', burst: 600 })
  const slow = gcra({ limit: 50, period: '1s', burst: 580 })
  const allTiers = [fast, slow].map((policy) => policySetOf(policy))
  const leased = allTiers.map((policySet) => leasedPolicySet({ ...policySet, allTiers }, 100).policies[0])
  expect(leased).toMatchObject([{ policy: { burst: 400 } }, { policy: { burst: 400 } }])
  expect(leasedPolicySet(allTiers[1] as (typeof allTiers)[number], 100).policies[0]).toMatchObject({
    policy: { burst: 575 },
  })
})
