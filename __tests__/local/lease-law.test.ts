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
import { checkFields } from '../simulation/decisions.js'
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
  'several keys': {
    ip: gcra({ limit: 1_001, period: '1s', per: 'ip' }),
    account: fixedWindow({ limit: 150, window: '1s', per: 'account' }),
  },
}

/** Policies of tiers that count on one state. */
const TIERS: Record<string, readonly [Policy, Policy]> = {
  'fast, and slow with a larger burst': [
    gcra({ limit: 4_000, period: '1s', burst: 600 }),
    gcra({ limit: 50, period: '1s', burst: 580 }),
  ],
  'slow, and fast with a larger burst': [
    leakyBucket({ capacity: 40, leak: { units: 3, every: '50ms' } }),
    leakyBucket({ capacity: 90, leak: { units: 30, every: '50ms' } }),
  ],
  'nearly equal rates': [gcra({ limit: 900, period: '1s', burst: 1_001 }), gcra({ limit: 1_001, period: '1s' })],
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
      /** The processes up to this one take leases. */
      readonly process: number
      readonly tier: number
      /** The calls of each process every 5 ms. */
      readonly calls: number
      readonly times: number
      /** The time until the leases are used. */
      readonly restMs: number
      /** The time from those calls until the leases are used. */
      readonly gapMs: number
    }
  | { readonly kind: 'takeUpTo' | 'penalize'; readonly process: number; readonly units: number }
  | { readonly kind: 'refund'; readonly process: number; readonly which: number }
  | { readonly kind: 'freeze'; readonly process: number; readonly millis: number }
  | { readonly kind: 'override'; readonly process: number; readonly tier: number; readonly millis: number }
  | { readonly kind: 'block' | 'unblock' | 'clearOverride' | 'end'; readonly process: number }

const process = fc.nat(3)
const tier = fc.nat(1)

/** Leases are taken early and used late, together with all that the store admits in another tier. */
const HOARD: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('hoard' as const),
  process,
  tier,
  // Near the rate, and far above it.
  calls: fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 10, max: 60 })),
  times: fc.integer({ min: 8, max: 30 }),
  // Some leases have ended, and their units have gone back.
  restMs: fc.oneof(fc.integer({ min: 50, max: 95 }), fc.integer({ min: 101, max: 130 })),
  gapMs: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 15 })),
})

const ANY_STEPS: fc.Arbitrary<Step[]> = fc.array(
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
    { weight: 4, arbitrary: HOARD },
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
        kind: fc.constantFrom('block' as const, 'unblock' as const, 'clearOverride' as const, 'end' as const),
        process,
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('override' as const),
        process,
        tier,
        millis: fc.integer({ min: 1, max: 900 }),
      }),
    },
  ),
  { minLength: 5, maxLength: 30 },
)

const STEPS = fc
  .tuple(fc.array(HOARD, { minLength: 2, maxLength: 4 }), ANY_STEPS)
  .map(([hoards, steps]) => [...hoards, ...steps])

/** The tier of all calls. Nothing comes back after a call of another tier, so some schedules have one only. */
const ONLY_TIER = fc.option(tier, { nil: undefined, freq: 4 })

/** The delays of calls and answers in milliseconds, some of them of a store nearby. */
const DELAYS = fc
  .tuple(fc.constantFrom(1, 15), fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })))
  .map(([mostMs, delays]) => delays.map((delay) => Math.round(delay * mostMs * 1_000) / 1_000))

/** Random steps may stay without a lease: these have leases of each policy. */
const LEASED_STEPS: Step[] = [
  { kind: 'flow', process: 0, tier: 0, everyMs: 1, times: 300 },
  { kind: 'hoard', process: 0, tier: 0, calls: 15, times: 4, restMs: 80, gapMs: 0 },
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

function accountOf(process: number): string {
  return `account ${process % 2}`
}

/** The execution of one schedule. */
class Schedule {
  readonly time = new VirtualTime()
  readonly backend: LimiterBackend
  readonly admitted: Admitted[] = []
  /** The calls of each process without an answer. */
  readonly unanswered = [0, 0, 0, 0]
  readonly processes: (Process | undefined)[]
  leased = 0

  readonly #written: readonly PolicySet[]
  readonly #onlyTier: number | undefined

  /** @param onlyTier - The tier of all calls, if they have the same. */
  constructor({ written, areTiers }: LawCase, onlyTier: number | undefined, delayMs: () => number) {
    this.#written = written
    this.#onlyTier = onlyTier
    const tiers = areTiers ? written.map((policySet) => ({ ...policySet, allTiers: written })) : written
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
      case 'hoard': {
        const all = (processes: number, tier: number, calls: number) => {
          for (let process = 0; process < processes; process++) {
            this.#execute({ kind: 'take', process, tier, calls, cost: 1 })
          }
        }
        await this.time.advance(500)
        for (let time = 0; time < step.times; time++) {
          all(step.process + 1, step.tier, step.calls)
          await this.time.advance(5)
        }
        await this.time.advance(step.restMs)
        all(4, step.tier + 1, 150)
        await this.time.advance(step.gapMs)
        all(4, step.tier, 150)
        await this.time.settled()
        break
      }
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
    const tier = this.#onlyTier ?? ('tier' in step ? step.tier : 0)
    const local = process.locals[tier % process.locals.length] as LocalBackend
    const keys = this.#keysOf(step.process)
    switch (step.kind) {
      case 'take':
        for (let call = 0; call < step.calls; call++) {
          const answer = keys.keys.length > 1 ? local.takeBy(keys, step.cost) : local.take('hot', step.cost)
          this.#onAnswer(step.process, answer, (decision) => {
            this.#record(step.process, local, decision, decision.allowed ? step.cost : 0)
          })
        }
        break
      case 'takeUpTo':
        this.#onAnswer(step.process, local.execute(keys, { kind: 'takeUpTo', units: step.units }), (result) => {
          const { decision, units, keys: charged = keys } = result
          this.#record(step.process, local, withMetadata(decision, this.backend.origin, charged, units), units)
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
        this.#onAnswer(step.process, local.execute(keys, this.#operationOf(step)), () => {})
    }
  }

  /** The keys of a process: two processes share each account. */
  #keysOf(process: number): Keys {
    const { dimensions = ['key'] } = this.#written[0] as PolicySet
    return new Keys(dimensions.length > 1 ? ['hot', accountOf(process)] : ['hot'], undefined)
  }

  #operationOf(step: Step): Operation {
    switch (step.kind) {
      case 'penalize':
        return { kind: 'penalize', units: step.units }
      case 'block':
        return { kind: 'block', durationUs: 200_000 }
      case 'override': {
        const { policies } = this.#written[step.tier % this.#written.length] as PolicySet
        const durationUs = step.millis * 1_000
        return { kind: 'override', policies: policies.map(({ policy }) => policy), durationUs }
      }
      default:
        return { kind: step.kind as 'unblock' | 'clearOverride' }
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
    checkFields(decision)
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

/**
 * The law of policies that count on one state: of tiers their mix, and of numbers that change a burst that
 * is larger by the units that come back within a lease.
 */
function lawOf(policies: readonly Policy[], areTiers: boolean): Policy {
  const rates = policies.map((policy) => algorithmOf(policy).rate?.(policy))
  const perSecond = rates.map((rate) => (rate === undefined ? 0 : (rate.units * 1_000) / rate.periodMs))
  const limit = Math.max(...perSecond)
  const largest = (policy: Policy) => algorithmOf(policy).largestCost(policy)
  if (areTiers) {
    return gcra({ limit, period: '1s', burst: Math.max(...policies.map(largest)) })
  }
  const within = (perSecond: number) => Math.ceil((perSecond * LEASE_MS) / 1_000)
  const reduced = policies.map((policy, index) => largest(policy) - within(perSecond[index] as number))
  return gcra({ limit, period: '1s', burst: Math.max(...reduced) + within(limit) })
}

interface LawCase {
  /** The policies of each tier, or of each version of the numbers. */
  readonly written: readonly PolicySet[]
  /** Whether they are tiers. Other numbers do not know of each other. */
  readonly areTiers: boolean
}

const several = (all: typeof TIERS, areTiers: boolean) =>
  Object.entries(all).map(([name, versions]): [string, LawCase] => {
    const written = versions.map((policy) => policySetOf(policy))
    return [`${areTiers ? 'tiers' : 'changing numbers'}: ${name}`, { written, areTiers }]
  })

const CASES = [
  ...Object.entries(POLICIES).map(([name, policies]): [string, LawCase] => {
    return [name, { written: [policySetOf(policies)], areTiers: true }]
  }),
  ...several(TIERS, true),
  ...several(TIERS, false).filter(([name]) => !name.includes('window')),
]

describe.each(CASES)('%s', (_, lawCase) => {
  const { written, areTiers } = lawCase
  // promise: leases-keep-law
  test('four processes use no more than the law admits, and every call is answered', async () => {
    let leased = 0
    const property = fc.asyncProperty(STEPS, ONLY_TIER, DELAYS, async (steps, onlyTier, delays) => {
      const schedule = new Schedule(lawCase, onlyTier, () => delays.next().value)
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
        const versions = written.map(({ policies }) => policies[index]?.policy as Policy)
        for (const account of [0, 1].map(accountOf)) {
          const isOfKey = ({ process }: Admitted) => policy.per !== 'account' || accountOf(process) === account
          const ofKey = admitted.filter(isOfKey)
          if (algorithmOf(policy).rate === undefined) {
            checkWindows(name, Math.max(...versions.map((policy) => (policy as { limit: number }).limit)), ofKey)
          } else {
            checkRate(versions.length === 1 ? policy : lawOf(versions, areTiers), ofKey)
          }
        }
      })
    })
    await fc.assert(property, { ...cases(8), examples: [[LEASED_STEPS, undefined, constantDelays(5)]] })
    expect(leased).toBeGreaterThan(0)
  })
})
