/** The share of a policy: exact, never more, and hardly less. */
import fc from 'fast-check'
import { engine } from '../../ts/backends/addon.js'
import { fractionOf, shareOf } from '../../ts/backends/fallback/share.js'
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  slidingCounter,
  slidingLog,
  slidingWindow,
  TollgateError,
  tokenBucket,
} from '../../ts/index.js'
import { policySetOf } from '../../ts/policies/policy-set.js'
import { cases } from '../cases.js'

/** A single policy's share. */
function shared<P extends Policy>(policy: P, share: number): P {
  return shareOf(engine, policySetOf(policy), share).policies[0]?.policy as P
}

describe('the product of a number and a share is exact', () => {
  test.each([
    [0.07, 100, 7],
    [0.29, 100, 29],
    [0.57, 100, 57],
    [0.1, 30, 3],
    [1 / 3, 3, 1],
    [1 / 7, 700, 100],
    [1 / 49, 49, 1],
    [2 / 3, 9, 6],
    [1, 2 ** 53 - 1, 2 ** 53 - 1],
    [0.5, 2 ** 53 - 1, 2 ** 52 - 1],
    [0.25, 7, 1],
    [0.9999999, 10_000_000, 9_999_999],
    [1e-6, 5_000_000, 5],
  ])('%p of %p is %p', (share, number, part) => {
    expect(shared(fixedWindow({ limit: number, window: '1s' }), share).limit).toBe(part)
  })

  test('a share that is a fraction of small numbers is recognized', () => {
    const pair = fc.tuple(fc.integer({ min: 1, max: 2 ** 26 }), fc.integer({ min: 1, max: 2 ** 26 }))
    fc.assert(
      fc.property(pair, ([a, b]) => {
        const [over, under] = [BigInt(Math.min(a, b)), BigInt(Math.max(a, b))]
        const found = fractionOf(Number(over) / Number(under))
        expect(found.numerator * under).toBe(over * found.denominator)
      }),
      cases(100),
    )
  })

  test('any other share is used as the exact double', () => {
    const number = fc.double({ min: Number.MIN_VALUE, max: 1, noNaN: true })
    fc.assert(
      fc.property(number, (share) => {
        const { numerator, denominator } = fractionOf(share)
        expect(denominator < 2n ** 1_000n ? Number(numerator) / Number(denominator) : share).toBe(share)
        expect(numerator <= denominator).toBe(true)
      }),
      cases(100),
    )
  })
})

describe('rates', () => {
  test.each([
    ['in longer time', { tokens: 1, every: 100 }, 0.25, { tokens: 1, every: 400 }],
    ['in units, if that is exact', { tokens: 1_000, every: 1_000 }, 0.25, { tokens: 250, every: 1_000 }],
    ['in whole microseconds, rounded up', { tokens: 7, every: 1_000 }, 0.3, { tokens: 7, every: 3_333.334 }],
    [
      'in units, where that is nearer',
      { tokens: 1_000_000_007, every: 0.001 },
      0.3,
      { tokens: 300_000_002, every: 0.001 },
    ],
    ['as they are', { tokens: 7, every: 1 }, 1, { tokens: 7, every: 1 }],
  ])('%s', (_how, refill, share, expected) => {
    const every = `${refill.every}ms` as const
    expect(shared(tokenBucket({ capacity: 100, refill: { ...refill, every } }), share).refill).toEqual(expected)
    const leak = { units: refill.tokens, every }
    expect(shared(leakyBucket({ capacity: 100, leak }), share).leak).toEqual({
      units: expected.tokens,
      every: expected.every,
    })
    expect(shared(gcra({ limit: refill.tokens, period: every, burst: 100 }), share)).toMatchObject({
      limit: expected.tokens,
      period: expected.every,
    })
  })

  test('are never exceeded, and undershot by less than a unit or a microsecond', () => {
    const units = fc.integer({ min: 1, max: 1_000_000 })
    const micros = fc.integer({ min: 1, max: 86_400_000_000 })
    let checked = 0
    fc.assert(
      fc.property(units, micros, fc.integer({ min: 1, max: 1_000 }), (limit, period, processes) => {
        const part = legal(gcra({ limit, period: `${period / 1_000}ms`, burst: processes }), 1 / processes)
        if (part === undefined) {
          return
        }
        checked++
        const [units, time] = [BigInt(part.limit), BigInt(Math.round(part.period * 1_000))]
        // units / time of each, against limit / period.
        const [sum, max] = [units * BigInt(period) * BigInt(processes), BigInt(limit) * time]
        expect(sum <= max).toBe(true)
        const unitMore = (units + 1n) * BigInt(period) * BigInt(processes) > max
        const microLess = sum > BigInt(limit) * (time - 1n)
        expect(unitMore || microLess).toBe(true)
      }),
      cases(2_000),
    )
    expect(checked).toBeGreaterThan(cases(2_000).numRuns / 2)
  })
})

/** The share of a policy; `undefined` if the policy or the share is invalid. */
function legal<P extends Policy>(policy: P, share: number): P | undefined {
  try {
    return shared(policy, share)
  } catch (error) {
    expect(error).toBeInstanceOf(TollgateError)
    return undefined
  }
}

/**
 * The maximum units of a policy in a span of microseconds by its documented law, divided by
 * a divisor.
 */
function lawOf(policy: Policy, span: bigint): readonly (readonly [units: bigint, divisor: bigint])[] {
  const rate = (burst: number, units: number, every: number) => {
    const micros = BigInt(Math.round(every * 1_000))
    return [BigInt(burst) * micros + BigInt(units) * span, micros] as const
  }
  if ('limits' in policy) {
    return Object.values(policy.limits).map(({ limit }) => [BigInt(limit), 1n] as const)
  }
  switch (policy.algorithm) {
    case 'gcra':
      return [rate(policy.burst ?? policy.limit, policy.limit, policy.period)]
    case 'leakyBucket':
      return [rate(policy.capacity, policy.leak.units, policy.leak.every)]
    case 'tokenBucket': {
      const { capacity, debt, refill, refillMode } = policy
      if (refillMode === 'continuous') {
        return [rate(capacity + debt, refill.tokens, refill.every)]
      }
      const intervals = span / BigInt(Math.round(refill.every * 1_000)) + 1n
      return [[BigInt(capacity + debt) + BigInt(refill.tokens) * intervals, 1n]]
    }
    // In each window, and in any span of the same length.
    case 'fixedWindow':
    case 'slidingCounter':
      return [
        [BigInt(policy.limit), 1n],
        [2n * BigInt(policy.limit) - 1n, 1n],
      ]
    case 'calendarWindow':
      return [
        [BigInt(policy.limit), 1n],
        [2n * BigInt(policy.limit), 1n],
      ]
    default:
      return [[BigInt(policy.limit), 1n]]
  }
}

const UNITS = fc.integer({ min: 1, max: 99_999 })
const LENGTH = fc.integer({ min: 1, max: 100_000_000 }).map((micros) => `${micros / 1_000}ms` as const)

/** Policies of each algorithm. */
const POLICIES: Readonly<Record<string, fc.Arbitrary<Policy>>> = {
  gcra: fc.tuple(UNITS, LENGTH, UNITS).map(([limit, period, burst]) => gcra({ limit, period, burst })),
  leakyBucket: fc
    .tuple(UNITS, UNITS, LENGTH)
    .map(([capacity, units, every]) => leakyBucket({ capacity, leak: { units, every } })),
  ...Object.fromEntries(
    (['continuous', 'interval'] as const).map((refillMode) => {
      const numbers = fc.tuple(UNITS, UNITS, LENGTH, UNITS, fc.double({ min: 0, max: 1, noNaN: true }))
      const policies = numbers.map(([capacity, tokens, every, debt, part]) => {
        return tokenBucket({
          capacity,
          refill: { tokens, every },
          refillMode,
          debt,
          initial: Math.floor(capacity * part),
        })
      })
      return [`tokenBucket, ${refillMode}`, policies]
    }),
  ),
  fixedWindow: fc.tuple(UNITS, LENGTH).map(([limit, window]) => fixedWindow({ limit, window, countRefused: true })),
  calendarWindow: UNITS.map((limit) => calendarWindow({ limit, every: '6h', timeZone: 'Asia/Kathmandu' })),
  slidingWindow: UNITS.map((limit) => slidingWindow({ limit, window: '1m', buckets: 7, layout: 'hash' })),
  slidingCounter: UNITS.map((limit) => slidingCounter({ limit, window: '1m' })),
  slidingLog: UNITS.map((limit) => slidingLog({ limit, window: '1m', countRefused: true })),
  'slidingLog, limits': fc.tuple(UNITS, UNITS).map(([a, b]) => {
    const short = { limit: Math.min(a, b), window: '1s' } as const
    return slidingLog({ limits: { short, long: { limit: Math.max(a, b) + 1, window: '1m' } }, precision: 10 })
  }),
}

describe.each(Object.entries(POLICIES))('%s', (_name, policies) => {
  const processes = fc.integer({ min: 1, max: 64 })

  // promise: shares-in-an-outage
  test('the laws of N processes with a share of 1 / N never exceed the law of the policy', () => {
    let checked = 0
    fc.assert(
      fc.property(policies, processes, fc.bigInt({ min: 0n, max: 10n ** 12n }), (policy, count, span) => {
        const part = legal(policy, 1 / count)
        if (part === undefined) {
          return
        }
        checked++
        const [whole, parts] = [lawOf(policy, span), lawOf(part, span)]
        whole.forEach(([units, divisor], index) => {
          const [partUnits, partDivisor] = parts[index] as readonly [bigint, bigint]
          expect(BigInt(count) * partUnits * divisor <= units * partDivisor).toBe(true)
        })
      }),
      cases(1_000),
    )
    expect(checked).toBeGreaterThan(cases(1_000).numRuns / 2)
  })

  test('all numbers are rounded down, and other values stay', () => {
    fc.assert(
      fc.property(policies, fc.integer({ min: 1, max: 100 }), (policy, percent) => {
        const part = legal(policy, percent / 100)
        if (part === undefined) {
          return
        }
        const floor = (number: number) => Math.floor((number * percent) / 100)
        expect(part).toMatchObject(expectedOf(policy, floor))
      }),
      cases(500),
    )
  })

  test('a share of 1 is the policy', () => {
    fc.assert(
      fc.property(policies, (policy) => {
        expect(legal(policy, 1) ?? policy).toEqual(policy)
      }),
      cases(100),
    )
  })
})

/** The properties of a policy's share, besides its rate. */
function expectedOf(policy: Policy, floor: (number: number) => number): object {
  if ('limits' in policy) {
    const limits = Object.entries(policy.limits).map(([name, { limit, window }]) => {
      return [name, { limit: floor(limit), window }]
    })
    return { ...policy, limits: Object.fromEntries(limits) }
  }
  switch (policy.algorithm) {
    case 'gcra':
      return { algorithm: 'gcra', burst: floor(policy.burst ?? policy.limit) }
    case 'leakyBucket':
      return { algorithm: 'leakyBucket', capacity: floor(policy.capacity) }
    case 'tokenBucket': {
      const { refill, capacity, initial = capacity, debt } = policy
      const tokens = { tokens: floor(refill.tokens), every: refill.every }
      return {
        ...policy,
        capacity: floor(capacity),
        initial: floor(initial),
        debt: floor(debt),
        refill: policy.refillMode === 'interval' ? tokens : {},
      }
    }
    default:
      return { ...policy, limit: floor(policy.limit) }
  }
}

test('each policy of a set gets its share, and keeps its name, kind of key and other values', () => {
  const compound = policySetOf({
    burst: gcra({ limit: 10, period: '1s', per: 'ip' }),
    day: calendarWindow({ limit: 9, every: 'day', timeZone: 'Asia/Tokyo', per: 'account' }),
  })
  const { policies, ...rest } = shareOf(engine, compound, 0.3)
  expect(rest).toEqual({ isSingle: false, dimensions: compound.dimensions, limits: compound.limits })
  expect(policies).toEqual([
    { name: 'burst', dimension: 0, policy: gcra({ limit: 3, period: '1s', burst: 3, per: 'ip' }) },
    { name: 'day', dimension: 1, policy: { ...compound.policies[1]?.policy, limit: 2 } },
  ])
})
