/**
 * Leases of several processes against one store whose calls and answers take time. An adversary
 * chooses the calls, and when processes stop, end and resume. All of it runs in virtual time.
 */
import fc from 'fast-check'
import type { Decision } from '../../ts/api/decision.js'
import { refundCreditOf, withMetadata } from '../../ts/api/decision-metadata.js'
import type { LimiterBackend } from '../../ts/backends/limiter-backend.js'
import { LeasedKeys } from '../../ts/backends/local/lease.js'
import { leasedPolicySet } from '../../ts/backends/local/leased-policies.js'
import { LocalBackend } from '../../ts/backends/local/local-backend.js'
import { localOptionsOf } from '../../ts/backends/local/local-options.js'
import type { Operation } from '../../ts/backends/operation.js'
import {
  calendarWindow,
  fixedWindow,
  gcra,
  leakyBucket,
  MemoryStore,
  type Policies,
  type Policy,
  tokenBucket,
} from '../../ts/index.js'
import { Keys } from '../../ts/input/keys.js'
import { algorithmOf } from '../../ts/policies/policy.js'
import { type PolicySet, policySetOf } from '../../ts/policies/policy-set.js'
import { cases } from '../cases.js'
import { FakeClock } from '../clock.js'
import { constantDelays, DelayedStore } from './delayed-store.js'
import { VirtualTime } from './virtual-time.js'

const LEASE_MS = 100

const POLICIES: Record<string, Policy | Policies> = {
  'gcra, slow': gcra({ limit: 100, period: '1s', burst: 40 }),
  'gcra, fast': gcra({ limit: 1_001, period: '1s' }),
  leakyBucket: leakyBucket({ capacity: 60, leak: { units: 7, every: '50ms' } }),
  tokenBucket: tokenBucket({ capacity: 50, refill: { tokens: 20, every: '70ms' }, initial: 30, debt: 5 }),
  fixedWindow: fixedWindow({ limit: 200, window: '1s' }),
  calendarWindow: calendarWindow({ limit: 300, every: '1s' }),
  several: { rate: gcra({ limit: 500, period: '1s', burst: 300 }), window: fixedWindow({ limit: 400, window: '2s' }) },
}

/** Policies of tiers that count on one state. */
const TIERS: Record<string, readonly [Policy, Policy]> = {
  'fast, and slow with a larger burst': [
    gcra({ limit: 2_000, period: '1s', burst: 600 }),
    gcra({ limit: 50, period: '1s', burst: 580 }),
  ],
  'slow, and fast with a larger burst': [
    leakyBucket({ capacity: 40, leak: { units: 3, every: '50ms' } }),
    leakyBucket({ capacity: 90, leak: { units: 30, every: '50ms' } }),
  ],
  'windows with the same length': [fixedWindow({ limit: 90, window: '1s' }), fixedWindow({ limit: 240, window: '1s' })],
}

type Step =
  | { readonly kind: 'pass'; readonly millis: number }
  | {
      readonly kind: 'take'
      readonly process: number
      readonly tier: number
      readonly calls: number
      readonly cost: number
    }
  | {
      readonly kind: 'flow'
      readonly process: number
      readonly tier: number
      readonly everyMs: number
      readonly times: number
    }
  | {
      readonly kind: 'hoard'
      readonly process: number
      readonly tier: number
      readonly calls: number
      readonly millis: number
    }
  | { readonly kind: 'takeUpTo' | 'penalize'; readonly process: number; readonly units: number }
  | { readonly kind: 'refund'; readonly process: number; readonly which: number }
  | { readonly kind: 'freeze'; readonly process: number; readonly millis: number }
  | { readonly kind: 'block' | 'unblock' | 'end'; readonly process: number }

const process = fc.nat(3)
const tier = fc.nat(1)

const STEPS: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 30,
      arbitrary: fc.record({
        kind: fc.constant('take' as const),
        process,
        tier,
        calls: fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 60 })),
        cost: fc.oneof({ weight: 6, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: 9 })),
      }),
    },
    {
      // Leases at the end of a window.
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('flow' as const),
        process,
        tier,
        everyMs: fc.integer({ min: 1, max: 8 }),
        times: fc.integer({ min: 20, max: 300 }),
      }),
    },
    {
      // A lease is taken early and used late, together with all that is left in the store.
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('hoard' as const),
        process,
        tier,
        calls: fc.integer({ min: 20, max: 100 }),
        millis: fc.integer({ min: 40, max: 110 }),
      }),
    },
    {
      weight: 20,
      arbitrary: fc.record({
        kind: fc.constant('pass' as const),
        millis: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 0, max: 30 }) }, fc.integer({ min: 0, max: 3_000 })),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom('takeUpTo' as const, 'penalize' as const),
        process,
        units: fc.integer({ min: 1, max: 40 }),
      }),
    },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('refund' as const), process, which: fc.nat(1_000) }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant('freeze' as const), process, millis: fc.integer({ min: 1, max: 400 }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constantFrom('block' as const, 'unblock' as const, 'end' as const),
        process,
      }),
    },
  ),
  { minLength: 10, maxLength: 60 },
)

/** Random steps may stay without a lease: these have leases of each policy. */
const LEASED_STEPS: Step[] = [
  { kind: 'flow', process: 0, tier: 0, everyMs: 1, times: 300 },
  { kind: 'hoard', process: 0, tier: 0, calls: 60, millis: 80 },
]

/** Leases of one tier, whose units drain before they are used, and then the burst of the other tier. */
const OTHER_TIER_STEPS: Step[] = [
  { kind: 'flow', process: 0, tier: 0, everyMs: 1, times: 300 },
  { kind: 'pass', millis: 41 },
  ...[0, 1, 2, 3].map((process): Step => ({ kind: 'take', process, tier: 1, calls: 200, cost: 1 })),
  // Before the store decides these calls, so that it grants no further lease.
  { kind: 'pass', millis: 4 },
  { kind: 'take', process: 0, tier: 0, calls: 400, cost: 1 },
  { kind: 'pass', millis: 20 },
]

/** An admitted call. */
interface Admitted {
  readonly process: number
  /** The time of its use by the store's clock, in milliseconds. */
  readonly usedAt: number
  readonly decision: Decision
  /** The backend of its tier. */
  readonly local: LocalBackend
  units: number
}

/** A process with a limiter. */
interface Process {
  readonly store: DelayedStore
  /** By tier. */
  readonly locals: readonly LocalBackend[]
}

function localOf({ locals }: Process, tier: number): LocalBackend {
  return locals[tier % locals.length] as LocalBackend
}

const KEYS = new Keys(['hot'], undefined)

/** The execution of one schedule. */
class Schedule {
  readonly time = new VirtualTime()
  readonly backend: LimiterBackend
  readonly admitted: Admitted[] = []
  /** The calls of each process without an answer. */
  readonly unanswered = [0, 0, 0, 0]
  readonly processes: (Process | undefined)[]
  leased = 0

  /** @param written - By tier, the policies of which may be the only ones. */
  constructor(written: readonly PolicySet[], delayMs: () => number) {
    const tiers = written.map((policySet) => ({ ...policySet, allTiers: written }))
    const policySet = leasedPolicySet(tiers[0] as PolicySet, LEASE_MS)
    const options = localOptionsOf({ lease: LEASE_MS }, policySet)
    if (options === undefined) {
      throw new Error('no options')
    }
    this.backend = new MemoryStore({ clock: this.time.clock.read }).open(undefined, policySet)
    this.processes = Array.from({ length: 4 }, (_, number) => {
      const store = new DelayedStore(this.backend, this.time, delayMs)
      // Each process has another clock.
      const now = () => this.time.now - Date.UTC(2026, 0, 1) * number
      const first = new LocalBackend(store, options, now, new Set())
      const others = tiers.slice(1).map((tier, index) => first.openVariant(tier, { index: index + 1, replaces: false }))
      return { store, locals: [first, ...others] }
    })
  }

  async run(step: Step): Promise<void> {
    switch (step.kind) {
      case 'pass':
        await this.time.advance(step.millis)
        break
      case 'flow':
        for (let time = 0; time < step.times; time++) {
          this.#execute({ ...step, kind: 'take', calls: 1, cost: 1 })
          await this.time.advance(step.everyMs)
        }
        break
      case 'hoard':
        for (let time = 0; time < 4; time++) {
          this.#execute({ ...step, kind: 'take', calls: step.calls / 4, cost: 1 })
          await this.time.advance(5)
        }
        await this.time.advance(step.millis)
        for (let process = 0; process < 4; process++) {
          this.#execute({ kind: 'take', process, tier: step.tier, calls: 100, cost: 1 })
        }
        await this.time.settled()
        for (let process = 0; process < 4; process++) {
          this.#execute({ kind: 'take', process, tier: step.tier + 1, calls: 100, cost: 1 })
        }
        break
      default:
        this.#execute(step)
        await this.time.settled()
    }
  }

  #execute(step: Exclude<Step, { kind: 'pass' | 'flow' | 'hoard' }>): void {
    const process = this.processes[step.process]
    if (process === undefined) {
      return
    }
    const { store } = process
    const local = localOf(process, 'tier' in step ? step.tier : 0)
    switch (step.kind) {
      case 'take':
        for (let call = 0; call < step.calls; call++) {
          this.#onAnswer(step.process, local.take('hot', step.cost), (decision) => {
            this.#record(step.process, local, decision, decision.allowed ? step.cost : 0)
          })
        }
        break
      case 'takeUpTo':
        this.#onAnswer(step.process, local.execute(KEYS, { kind: 'takeUpTo', units: step.units }), (result) => {
          const { decision, units, keys = KEYS } = result
          this.#record(step.process, local, withMetadata(decision, this.backend.origin, keys, units), units)
        })
        break
      case 'refund':
        this.#refund(step.process, step.which)
        break
      case 'freeze':
        store.freeze(step.millis)
        break
      case 'end':
        store.cut()
        this.processes[step.process] = undefined
        break
      default:
        this.#onAnswer(step.process, local.execute(KEYS, operationOf(step)), () => {})
    }
  }

  #onAnswer<T extends object>(process: number, answer: T | Promise<T>, run: (answer: T) => void): void {
    if (answer instanceof Promise) {
      const count = this.unanswered
      count[process] = (count[process] as number) + 1
      void answer.then((value) => {
        count[process] = (count[process] as number) - 1
        run(value)
      })
    } else {
      run(answer)
    }
  }

  #record(process: number, local: LocalBackend, decision: Decision, units: number): void {
    if (units > 0) {
      const isLeased = decision.source === 'lease'
      this.leased += isLeased ? 1 : 0
      this.admitted.push({ process, usedAt: isLeased ? this.time.now : decision.at, decision, local, units })
    }
  }

  /** Refunds a call. What comes back was not used. */
  #refund(process: number, which: number): void {
    const own = this.admitted.filter((admitted) => admitted.process === process)
    const admitted = own[which % Math.max(1, own.length)]
    const origin = admitted?.local.origin ?? this.backend.origin
    const keys = admitted && refundCreditOf(admitted.decision, origin)?.key
    if (admitted === undefined || admitted.units === 0 || !(keys instanceof LeasedKeys)) {
      return
    }
    const { units, local } = admitted
    admitted.units = 0
    const unused = { atUs: 0, resetAtUs: [], marks: [], used: [], cost: 0, kept: 0 }
    const refund: Operation = { kind: 'refund', source: 'lease', units, ...unused }
    this.#onAnswer(process, local.execute(keys, refund), ({ units: refunded }) => {
      admitted.units = units - refunded
    })
  }
}

function operationOf(step: Step): Operation {
  switch (step.kind) {
    case 'penalize':
      return { kind: 'penalize', units: step.units }
    case 'block':
      return { kind: 'block', durationUs: 200_000 }
    default:
      return { kind: 'unblock' }
  }
}

/** The units of a rate are used within its law: a bucket of the original burst admits them. */
function checkRate(policy: Policy, admitted: readonly Admitted[]): void {
  const clock = new FakeClock()
  const full = 'initial' in policy ? { ...policy, initial: policy.capacity } : policy
  const oracle = new MemoryStore({ clock: clock.read }).open(undefined, policySetOf(full))
  const inOrder = [...admitted].sort((one, other) => one.usedAt - other.usedAt)
  for (const { usedAt, units } of inOrder) {
    clock.advance(Math.max(0, usedAt - clock.read()))
    for (let unit = 0; unit < units; unit++) {
      expect((oracle.take('hot', 1) as Decision).allowed).toBe(true)
    }
  }
}

/** The units of each window of the store are at most the limit, and used in it. */
function checkWindows(name: string, limit: number, admitted: readonly Admitted[]): void {
  const ends = new Map<number, number>()
  for (const { usedAt, decision, units } of admitted) {
    // Ends are known to 2 ms, and the ends of two windows are further apart.
    const end = decision.at + (decision.policies[name]?.resetAfterMs ?? 0)
    expect(usedAt).toBeLessThan(end)
    const known = [...ends.keys()].find((other) => Math.abs(other - end) < 100) ?? end
    ends.set(known, (ends.get(known) ?? 0) + units)
  }
  for (const units of ends.values()) {
    expect(units).toBeLessThanOrEqual(limit)
  }
}

/** The largest numbers of tiers. */
function largestOf(tiers: readonly Policy[]): Policy {
  const rates = tiers.map((policy) => algorithmOf(policy).rate?.(policy))
  const perSecond = rates.map((rate) => (rate === undefined ? 0 : (rate.units * 1_000) / rate.periodMs))
  const burst = Math.max(...tiers.map((policy) => algorithmOf(policy).largestCost(policy)))
  return gcra({ limit: Math.max(...perSecond), period: '1s', burst })
}

const CASES: [string, readonly PolicySet[]][] = [
  ...Object.entries(POLICIES).map(([name, policies]): [string, PolicySet[]] => [name, [policySetOf(policies)]]),
  ...Object.entries(TIERS).map(([name, tiers]): [string, PolicySet[]] => [
    `tiers: ${name}`,
    tiers.map((policy) => policySetOf(policy)),
  ]),
]

describe.each(CASES)('%s', (_, written) => {
  // promise: leases-keep-law
  test('four processes use no more than the law admits, and every call is answered', async () => {
    let leased = 0
    const delays = fc.infiniteStream(fc.double({ min: 0, max: 15, noNaN: true }))
    const property = fc.asyncProperty(STEPS, delays, async (steps, delay) => {
      const schedule = new Schedule(written, () => Math.round(delay.next().value * 1_000) / 1_000)
      const restore = schedule.time.replaceTimers()
      try {
        for (const step of steps) {
          await schedule.run(step)
        }
        await schedule.time.advance(10_000)
      } finally {
        restore()
      }
      leased += schedule.leased
      const living = schedule.unanswered.filter((_, number) => schedule.processes[number] !== undefined)
      expect(living).toEqual(living.map(() => 0))
      const admitted = schedule.admitted.filter(({ units }) => units > 0)
      const [{ policies }] = written as readonly [PolicySet]
      policies.forEach(({ name, policy }, index) => {
        const tiers = written.map(({ policies }) => policies[index]?.policy as Policy)
        if (algorithmOf(policy).rate === undefined) {
          checkWindows(name, Math.max(...tiers.map((policy) => (policy as { limit: number }).limit)), admitted)
        } else {
          checkRate(tiers.length === 1 ? policy : largestOf(tiers), admitted)
        }
      })
    })
    await fc.assert(property, {
      ...cases(20),
      examples: [LEASED_STEPS, OTHER_TIER_STEPS].map((steps) => [steps, constantDelays(5)]),
    })
    expect(leased).toBeGreaterThan(0)
  })
})
