/**
 * A tier that decides nothing changes nothing: a key on which only one tier decides behaves as under a limiter that
 * has only that tier.
 */
import {
  calendarWindow,
  type Decision,
  fixedWindow,
  gcra,
  leakyBucket,
  type Policy,
  type RateLimiter,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tiers,
  tokenBucket,
} from '../../ts/index.js'
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
})
