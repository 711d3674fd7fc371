/**
 * The law of a key that is called under several tiers, whose numbers are updated, too: whatever the
 * trace, no window admits more than the largest numbers allow.
 */
import fc from 'fast-check'
import {
  fixedWindow,
  gcra,
  leakyBucket,
  MemoryStore,
  type Policy,
  RateLimiter,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tiers,
  tokenBucket,
} from '../../ts/index.js'
import { cases } from '../cases.js'
import { FakeClock } from '../clock.js'

/** One algorithm with three numbers, and the most that any span of a length in milliseconds admits. */
interface LawCase {
  readonly name: string
  readonly versions: readonly [Policy, Policy, Policy]
  readonly bound: (spanMs: number) => number
  /** The longest span with a bound. */
  readonly maxSpanMs?: number
}

const rate = (limit: number, period: number, burst: number) => ({ limit, period, burst })
const RATES = [rate(10, 1_000, 5), rate(3, 100, 12), rate(50, 1_000, 2)] as const
/** Rates of at most 50 units in a second, and bursts of at most 12. */
const ofRates = (spanMs: number) => 12 + (50 * spanMs) / 1_000

const CASES: readonly LawCase[] = [
  { name: 'gcra', versions: [gcra(RATES[0]), gcra(RATES[1]), gcra(RATES[2])], bound: ofRates },
  {
    name: 'leakyBucket',
    versions: [
      leakyBucket({ capacity: 5, leak: { units: 10, every: 1_000 } }),
      leakyBucket({ capacity: 12, leak: { units: 3, every: 100 } }),
      leakyBucket({ capacity: 2, leak: { units: 50, every: 1_000 } }),
    ],
    bound: ofRates,
  },
  {
    name: 'tokenBucket',
    versions: [
      tokenBucket({ capacity: 5, refill: { tokens: 10, every: 1_000 }, initial: 1 }),
      tokenBucket({ capacity: 9, refill: { tokens: 3, every: 100 }, debt: 3 }),
      tokenBucket({ capacity: 2, refill: { tokens: 50, every: 1_000 } }),
    ],
    bound: ofRates,
  },
  {
    name: 'fixedWindow',
    versions: [
      fixedWindow({ limit: 5, window: 1_000 }),
      fixedWindow({ limit: 9, window: 200 }),
      fixedWindow({ limit: 3, window: 5_000 }),
    ],
    bound: () => 2 * 9 - 1,
    maxSpanMs: 199,
  },
  {
    name: 'slidingWindow',
    versions: [
      slidingWindow({ limit: 5, window: 1_000, buckets: 4 }),
      slidingWindow({ limit: 9, window: 200, buckets: 3 }),
      slidingWindow({ limit: 3, window: 5_000, buckets: 9 }),
    ],
    bound: () => 9,
    maxSpanMs: 199,
  },
  {
    name: 'slidingCounter',
    versions: [
      slidingCounter({ limit: 5, window: 1_000 }),
      slidingCounter({ limit: 9, window: 200 }),
      slidingCounter({ limit: 3, window: 5_000 }),
    ],
    bound: (spanMs) => 9 * (1 + (spanMs + 1) / 200),
  },
  {
    name: 'slidingLog',
    versions: [
      slidingLog({ limit: 5, window: 1_000 }),
      slidingLog({ limit: 9, window: 200 }),
      slidingLog({ limit: 3, window: 5_000 }),
    ],
    bound: () => 9,
    maxSpanMs: 199,
  },
]

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ tier: fc.constantFrom('a', 'b', 'c'), cost: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 4, arbitrary: fc.record({ passMs: fc.integer({ min: 0, max: 120 }) }) },
  { weight: 1, arbitrary: fc.record({ passMs: fc.integer({ min: 0, max: 6_000 }) }) },
  { weight: 1, arbitrary: fc.record({ rotation: fc.integer({ min: 0, max: 2 }) }) },
)

test.each(CASES)('$name', ({ versions, bound, maxSpanMs = Number.POSITIVE_INFINITY }) => {
  const rotated = (rotation: number) => {
    const of = (tier: number) => versions[(tier + rotation) % 3] as Policy
    return tiers({ a: of(0), b: of(1), c: of(2) })
  }
  let admittedInAll = 0
  const property = fc.property(fc.array(step, { minLength: 30, maxLength: 120 }), (steps) => {
    const clock = new FakeClock()
    const limiter = new RateLimiter(rotated(0), { store: new MemoryStore({ clock: clock.read }) })
    const admitted: (readonly [at: number, units: number])[] = []
    for (const one of steps) {
      if ('passMs' in one) {
        clock.advance(one.passMs)
      } else if ('rotation' in one) {
        limiter.update(rotated(one.rotation))
      } else if (limiter.takeSync('key', one).allowed) {
        admitted.push([clock.read(), one.cost])
        admittedInAll++
      }
    }
    let excess = Number.NEGATIVE_INFINITY
    for (let first = 0; first < admitted.length; first++) {
      let sum = 0
      for (let last = first; last < admitted.length; last++) {
        const [at, units] = admitted[last] as (typeof admitted)[number]
        const spanMs = at - (admitted[first]?.[0] as number)
        sum += units
        if (spanMs <= maxSpanMs) {
          excess = Math.max(excess, sum - bound(spanMs))
        }
      }
    }
    expect(excess).toBeLessThanOrEqual(0)
  })
  const params = cases(300)
  fc.assert(property, params)
  expect(admittedInAll).toBeGreaterThan(3 * params.numRuns)
})
