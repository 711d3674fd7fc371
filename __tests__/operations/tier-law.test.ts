/**
 * The law of a key that is called under several tiers, whose numbers are updated, too: whatever the
 * trace, with refunds in any tier and resets, no window admits more than the largest numbers allow, less
 * what came back.
 */
import fc from 'fast-check'
import {
  type Decision,
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
    // A longer window cannot tell which units opened a shorter one.
    bound: () => 2 * 9,
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
  // Of a recent call, or of any.
  {
    weight: 3,
    arbitrary: fc.record({ back: fc.oneof(fc.nat(3), fc.nat(60)), part: fc.option(fc.integer({ min: 1, max: 3 })) }),
  },
  { weight: 1, arbitrary: fc.constantFrom({ reset: true }, { passMs: 1 }, { passMs: 200 }) },
)

interface Admitted {
  readonly at: number
  readonly decision: Decision
  /** The units that have not come back. */
  units: number
}

test.each(CASES)('$name', async ({ versions, bound, maxSpanMs = Number.POSITIVE_INFINITY }) => {
  const rotated = (rotation: number) => {
    const of = (tier: number) => versions[(tier + rotation) % 3] as Policy
    return tiers({ a: of(0), b: of(1), c: of(2) })
  }
  /** The units of the spans that end with the last call, above the bound. */
  const excessAtEnd = (admitted: readonly Admitted[]) => {
    let [sum, excess] = [0, Number.NEGATIVE_INFINITY]
    const end = admitted.at(-1)?.at ?? 0
    for (const { at, units } of [...admitted].reverse()) {
      sum += units
      if (end - at <= maxSpanMs) {
        excess = Math.max(excess, sum - bound(end - at))
      }
    }
    return excess
  }
  let admittedInAll = 0
  let refundedInAll = 0
  const property = fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 120 }), async (steps) => {
    const clock = new FakeClock()
    const limiter = new RateLimiter(rotated(0), { store: new MemoryStore({ clock: clock.read }) })
    const admitted: Admitted[] = []
    let excess = Number.NEGATIVE_INFINITY
    for (const one of steps) {
      if ('passMs' in one) {
        clock.advance(one.passMs)
      } else if ('rotation' in one) {
        limiter.update(rotated(one.rotation))
      } else if ('reset' in one) {
        await limiter.reset('key')
        for (const call of admitted) {
          call.units = 0
        }
      } else if ('back' in one) {
        const call = admitted.at(-1 - one.back)
        const given = call === undefined ? 0 : await limiter.refund(call.decision, one.part ?? undefined)
        if (call !== undefined) {
          call.units -= given
          expect(call.units).toBeGreaterThanOrEqual(0)
        }
        refundedInAll += given
      } else {
        const decision = limiter.takeSync('key', one)
        if (decision.allowed) {
          admitted.push({ at: clock.read(), decision, units: one.cost })
          admittedInAll++
          excess = Math.max(excess, excessAtEnd(admitted))
        }
      }
    }
    expect(excess).toBeLessThanOrEqual(0)
  })
  const params = cases(300)
  await fc.assert(property, params)
  expect(admittedInAll).toBeGreaterThan(3 * params.numRuns)
  expect(refundedInAll).toBeGreaterThan(params.numRuns / 10)
})
