/**
 * A tier that decides nothing changes nothing: a key on which only one tier decides behaves as under a limiter that
 * has only that tier.
 */
import fc from 'fast-check'
import {
  calendarWindow,
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
import { anything, rejectionOf } from '../failure.js'
import { BACKENDS, type Backend } from './stores.js'

const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000]

/** Policies of each algorithm with `limit` units in `window` milliseconds. */
const ALGORITHMS: readonly (readonly [string, (limit: number, window: number) => Policy])[] = [
  ['gcra', (limit, period) => gcra({ limit, period })],
  ['leakyBucket', (limit, every) => leakyBucket({ capacity: limit, leak: { units: limit, every } })],
  ['tokenBucket', (limit, every) => tokenBucket({ capacity: limit, refill: { tokens: limit, every } })],
  [
    'an interval bucket',
    (limit, every) => tokenBucket({ capacity: limit, refill: { tokens: limit, every }, refillMode: 'interval' }),
  ],
  ['fixedWindow', (limit, window) => fixedWindow({ limit, window })],
  ['calendarWindow', (limit) => calendarWindow({ limit, every: 'day' })],
  ['slidingWindow', (limit, window) => slidingWindow({ limit, window, buckets: 10 })],
  ['slidingWindow in a hash', (limit, window) => slidingWindow({ limit, window, buckets: 10, layout: 'hash' })],
  ['slidingCounter', (limit, window) => slidingCounter({ limit, window })],
  ['slidingLog', (limit, window) => slidingLog({ limit, window })],
]

/** A limiter, whose calls are decided by one tier. */
interface Subject {
  readonly changes: Pick<RateLimiter<Policy>, 'block' | 'clearOverride' | 'refund' | 'reset' | 'unblock'>
  readonly take: (cost: number) => Promise<Decision>
  readonly peek: () => Promise<Decision>
}

/** A limiter with the deciding tier alone, and one with another tier before it. */
function subjectsOf(limiterOf: Backend['limiter'], idle: Policy, deciding: Policy): readonly [Subject, Subject] {
  const alone = limiterOf(deciding)
  const tiered = limiterOf(tiers({ idle, deciding }))
  const tier = 'deciding'
  return [
    { changes: alone, take: (cost) => alone.take('key', cost), peek: () => alone.peek('key') },
    { changes: tiered, take: (cost) => tiered.take('key', { tier, cost }), peek: () => tiered.peek('key', { tier }) },
  ]
}

/** A mark orders the decisions on a key. Its size means nothing. */
function withoutMarks<T>(value: T): T {
  return typeof value === 'object' ? { ...value, marks: undefined } : value
}

type Change = (subject: Subject, first: Decision, second: Decision) => Promise<unknown>

const CHANGES: readonly (readonly [string, Change])[] = [
  ['refund of the latest call', ({ changes }, _, second) => changes.refund(second)],
  ['refund of a part of the first call', ({ changes }, first) => changes.refund(first, 2)],
  ['block', ({ changes }) => changes.block('key', '1ms')],
  ['unblock', ({ changes }) => changes.unblock('key')],
  ['clearOverride', ({ changes }) => changes.clearOverride('key')],
  [
    'reset, and a refund of a call before it',
    async ({ changes, take }, first) => {
      await changes.reset('key')
      await take(4)
      return changes.refund(first)
    },
  ],
]

describe.each(BACKENDS)('a tier that does not decide: $name', (backend) => {
  const table = ALGORITHMS.flatMap(([name, policy]) => CHANGES.map(([change, run]) => ({ name, policy, change, run })))

  test.each(table)('$name: $change', async ({ policy, run }) => {
    for (const idle of [policy(2, MINUTE), policy(200, DAY)]) {
      const subjects = subjectsOf(backend.limiter, idle, policy(10, HOUR))
      const first = await Promise.all(subjects.map(({ take }) => take(5)))
      await backend.pass(1_500)
      const second = await Promise.all(subjects.map(({ take }) => take(3)))
      const compare = async <T>(call: (subject: Subject, index: 0 | 1) => Promise<T>) => {
        const [alone, tiered] = await Promise.all([call(subjects[0], 0), call(subjects[1], 1)])
        expect(withoutMarks(tiered)).toEqual(withoutMarks(alone))
      }
      await compare((subject, index) => run(subject, first[index] as Decision, second[index] as Decision))
      for (const pause of [1, 2 * MINUTE, HOUR]) {
        await compare(({ peek }) => peek())
        await backend.pass(pause)
        await compare(({ take }) => take(1))
      }
    }
  })

  test.each([false, true])('an override in force does not end a window (ended: %s)', async (isCleared) => {
    for (const policy of [fixedWindow, slidingWindow]) {
      const limiter = backend.limiter(
        tiers({ idle: policy({ limit: 2, window: '1m' }), deciding: policy({ limit: 10, window: '1h' }) }),
      )
      const tier = 'deciding'
      await limiter.take('key', { tier, cost: 9 })
      const { resetAfterMs } = await limiter.peek('key', { tier })
      await limiter.override('key', { limit: 30, window: '1h' }, { ttl: '1d', tier: 'idle' })
      await limiter.take('key', { tier, cost: 9 })
      if (isCleared) {
        await limiter.clearOverride('key')
      }
      const after = await limiter.peek('key', { tier })
      expect(after).toMatchObject({ remaining: isCleared ? 0 : 12, resetAfterMs })
    }
  })

  test('the refund of a copy names the tier', async () => {
    const policy = (limit: number, window: number) => slidingWindow({ limit, window, buckets: 4 })
    const limiter = backend.limiter(tiers({ idle: policy(2, MINUTE), deciding: policy(10, HOUR) }))
    const plain = backend.limiter(policy(10, HOUR))
    const tier = 'deciding'
    const decision = await limiter.take('key', { tier, cost: 5 })
    const copy = JSON.parse(JSON.stringify(decision)) as typeof decision
    const errorOf = async (options: object, refunded: unknown = copy) => {
      return (await rejectionOf(limiter.refund(anything(refunded), 2, anything(options)))).message
    }
    expect(await errorOf({ key: 'key' })).toBe('refund: tier must be one of "idle", "deciding", got undefined')
    expect(await errorOf({ key: 'key', tier: 'gold' })).toBe(
      'refund: tier must be one of "idle", "deciding", got "gold"',
    )
    expect(await errorOf({ key: 'key', tier: 'idle' }, decision)).toBe(
      'refund: tier must be "deciding", the tier of the decision, got "idle"',
    )
    const options = anything({ key: 'key', tier })
    expect((await rejectionOf(plain.refund(await plain.take('key', 2), 1, options))).message).toBe(
      'refund has no option "tier": the limiter has no tiers; make the limiter with tiers({ … })',
    )
    expect(await limiter.refund(copy, 2, { key: 'key', tier })).toBe(2)
    expect(await limiter.refund(decision, 1, { key: 'key', tier })).toBe(1)
    expect(await limiter.peek('key', { tier })).toMatchObject({ remaining: 8 })
  })

  test('a decision from before an update is refunded under the new numbers of its tier', async () => {
    const policy = (limit: number) => tiers({ idle: fixedWindow({ limit: 2, window: '1m' }), deciding: hourly(limit) })
    const hourly = (limit: number) => fixedWindow({ limit, window: '1h' })
    const limiter = backend.limiter(policy(10))
    const tier = 'deciding'
    const decision = await limiter.take('key', { tier, cost: 5 })
    limiter.update(policy(20))
    expect(await limiter.refund(decision, 2)).toBe(2)
    expect(await limiter.peek('key', { tier })).toMatchObject({ remaining: 17, resetAfterMs: decision.resetAfterMs })
  })
})

const CHANGED = ['block', 'unblock', 'clearOverride', 'reset'] as const

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ cost: fc.integer({ min: 1, max: 6 }) }) },
  { weight: 4, arbitrary: fc.record({ passMs: fc.integer({ min: 0, max: 90_000 }) }) },
  // Also back.
  { weight: 2, arbitrary: fc.record({ passMs: fc.integer({ min: -2 * HOUR, max: 3 * HOUR }) }) },
  { weight: 3, arbitrary: fc.record({ back: fc.nat(6), part: fc.option(fc.integer({ min: 1, max: 3 })) }) },
  { weight: 3, arbitrary: fc.record({ change: fc.constantFrom(...CHANGED) }) },
)

test.each(ALGORITHMS)('%s: whatever the trace, only the deciding tier matters', async (_, policy) => {
  let refunds = 0
  const property = fc.asyncProperty(
    fc.array(step, { minLength: 10, maxLength: 60 }),
    fc.constantFrom([2, MINUTE] as const, [200, DAY] as const),
    async (steps, [limit, window]) => {
      const clock = new FakeClock()
      const limiterOf: Backend['limiter'] = (policies) =>
        new RateLimiter(policies, { store: new MemoryStore({ clock: clock.read }) })
      const subjects = subjectsOf(limiterOf, policy(limit, window), policy(10, HOUR))
      const decisions: readonly [Decision[], Decision[]] = [[], []]
      const perform = async (one: (typeof steps)[number], index: 0 | 1): Promise<unknown> => {
        const { changes, take } = subjects[index]
        const earlier = decisions[index]
        if ('cost' in one) {
          earlier.push(await take(one.cost))
          return withoutMarks(earlier.at(-1))
        }
        if ('back' in one) {
          const decision = earlier.at(-1 - one.back)
          return decision?.allowed ? changes.refund(decision, one.part ?? undefined) : 0
        }
        if ('change' in one) {
          return one.change === 'block' ? changes.block('key', 5_000) : changes[one.change]('key')
        }
        return undefined
      }
      for (const one of steps) {
        clock.advance('passMs' in one ? one.passMs : 0)
        const result = await perform(one, 0)
        expect(await perform(one, 1)).toEqual(result)
        expect(withoutMarks(await subjects[1].peek())).toEqual(withoutMarks(await subjects[0].peek()))
        refunds += typeof result === 'number' ? result : 0
      }
    },
  )
  const params = cases(100)
  await fc.assert(property, params)
  expect(refunds).toBeGreaterThan(params.numRuns / 10)
})
