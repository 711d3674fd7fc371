/**
 * Cached refusals with bans, blocks, tiers and overrides under several key dimensions: what is refused
 * here has the status that the store would give it, and is no strike that the store has to count.
 */
import fc from 'fast-check'
import { banRuleOf, withBanRule } from '../../ts/api/ban.js'
import type { Decision } from '../../ts/api/decision.js'
import { blocksOf } from '../../ts/backends/blocks.js'
import { LocalBackend } from '../../ts/backends/local/local-backend.js'
import { localOptionsOf } from '../../ts/backends/local/local-options.js'
import type { Operation, OperationResult } from '../../ts/backends/operation.js'
import type { Units } from '../../ts/backends/units.js'
import { fixedWindow, gcra, MemoryStore, type Policies, type Policy, tokenBucket } from '../../ts/index.js'
import { Keys } from '../../ts/input/keys.js'
import { type PolicySet, policySetOf } from '../../ts/policies/policy-set.js'
import { cases } from '../cases.js'
import { checkFields } from '../simulation/decisions.js'
import { constantDelays, DelayedStore } from './delayed-store.js'
import { VirtualTime } from './virtual-time.js'

interface Setup {
  /** The policies of each tier. */
  readonly tiers: readonly [Policies, ...Policies[]]
  readonly ban?: object
}

const slow = gcra({ limit: 4, period: '4s', burst: 4 })
const fast = gcra({ limit: 40, period: '4s', burst: 6 })

const of = (per: string, policy: Policy): Policy => ({ ...policy, per }) as Policy

const SETUPS: Record<string, Setup> = {
  'bans, two keys': {
    tiers: [{ ip: of('ip', slow), account: of('account', fixedWindow({ limit: 5, window: '3s' })) }],
    ban: { after: 2, period: '10s', for: ['1s', '3s'] },
  },
  'bans, two policies on one key': {
    tiers: [{ rate: slow, window: fixedWindow({ limit: 9, window: '5s' }) }],
    ban: { after: 2, period: '10s', for: '2s' },
  },
  'tiers, one key': { tiers: [{ rate: slow }, { rate: fast }] },
  'tiers of windows': {
    tiers: [{ window: fixedWindow({ limit: 4, window: '9s' }) }, { window: fixedWindow({ limit: 8, window: '1s' }) }],
  },
  'tiers, two keys': {
    tiers: [
      { ip: of('ip', slow), account: of('account', tokenBucket({ capacity: 5, refill: { tokens: 2, every: '2s' } })) },
      { ip: of('ip', fast), account: of('account', tokenBucket({ capacity: 9, refill: { tokens: 9, every: '1s' } })) },
    ],
  },
  'bans, two meters of a key': {
    tiers: [{ rate: slow, tokens: { ...fixedWindow({ limit: 5, window: '3s' }), meter: 'tokens' } }],
    ban: { after: 2, period: '10s', for: ['1s', '3s'] },
  },
  'tiers, two meters': {
    tiers: [
      { calls: of('ip', slow), tokens: { ...of('account', slow), meter: 'tokens' }, all: of('account', slow) },
      { calls: of('ip', fast), tokens: { ...of('account', fast), meter: 'tokens' }, all: of('account', fast) },
    ],
  },
  'tiers of windows, two meters of a key': {
    tiers: [
      { calls: slow, tokens: fixedWindow({ limit: 4, window: '9s', meter: 'tokens' }) },
      { calls: fast, tokens: fixedWindow({ limit: 8, window: '1s', meter: 'tokens' }) },
    ],
  },
}

type Step =
  | { readonly kind: 'pass'; readonly millis: number }
  | {
      readonly kind: 'take' | 'reset' | 'block' | 'unblock' | 'penalize' | 'override'
      readonly tier: number
      readonly units: number
      /** The units of the second meter. */
      readonly others: number
      readonly keys: string[]
    }

function steps(dimensions: number): fc.Arbitrary<Step[]> {
  const keys = fc.array(fc.constantFrom('a', 'b'), { minLength: dimensions, maxLength: dimensions })
  const units = fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: 7 }))
  const of = <K extends string>(kind: fc.Arbitrary<K>) =>
    fc.record({ kind, tier: fc.nat(9), units, others: fc.nat(3), keys })
  const millis = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 5_000 }))
  return fc.array(
    fc.oneof(
      { weight: 16, arbitrary: of(fc.constant('take')) },
      { weight: 6, arbitrary: fc.record({ kind: fc.constant('pass'), millis }) },
      { weight: 2, arbitrary: of(fc.constantFrom('reset', 'block', 'unblock', 'penalize', 'override')) },
    ),
    { minLength: 20, maxLength: 120 },
  ) as fc.Arbitrary<Step[]>
}

/** Calls on one key until it is refused, again and again. */
function refusedSteps(dimensions: number): Step[] {
  const keys = Array(dimensions).fill('a')
  return Array.from({ length: 60 }, (_, number): Step[] => [
    ...Array.from({ length: 8 }, (): Step => ({ kind: 'take', tier: number, units: 1, others: 1, keys })),
    { kind: 'pass', millis: 30 },
  ]).flat()
}

/** One limiter with a backend for each tier, on a delayed store. */
class Limiter {
  readonly time = new VirtualTime()
  readonly policySets: readonly PolicySet[]
  readonly stores: DelayedStore[]
  readonly locals: LocalBackend[]
  cached = 0

  constructor({ tiers, ban }: Setup, delayMs: () => number) {
    const sets = tiers.map((policies) => policySetOf(policies))
    this.policySets = withBanRule(sets, ban && banRuleOf(ban, undefined))
    const [first, ...others] = this.policySets as [PolicySet, ...PolicySet[]]
    const options = localOptionsOf({ refusals: '10s' }, first)
    if (options === undefined) {
      throw new Error('no options')
    }
    const backend = new MemoryStore({ clock: this.time.clock.read }).open(undefined, first)
    const store = new DelayedStore(backend, this.time, delayMs)
    const local = new LocalBackend(store, options, this.time.clock.read, new Set())
    this.stores = [store]
    this.locals = [local]
    for (const [index, policySet] of others.entries()) {
      const variant = { index: index + 1, replaces: false }
      const opened = local.openVariant(policySet, variant)
      this.locals.push(opened)
      // For peeks.
      this.stores.push(store.openVariant(policySet, variant))
    }
  }

  get hasBan(): boolean {
    return this.policySets[0]?.ban !== undefined
  }

  /** A refusal that was decided here. */
  check(tier: number, keys: Keys, cost: Units, decision: Decision): void {
    this.cached++
    checkFields(decision)
    const store = this.stores[tier] as DelayedStore
    const { decision: stored } = store.backend.execute(keys, { kind: 'peek', cost }) as OperationResult
    expect(stored.allowed).toBe(false)
    if (this.hasBan) {
      // Any other refusal would be a strike.
      expect(['blocked', 'impossible']).toContain(stored.status)
      expect(decision.status).toBe(stored.status)
    }
    const refusing = Object.entries(decision.policies).filter(([, { retryAfterMs }]) => retryAfterMs !== 0)
    const blocks = blocksOf(stored)
    if (decision.status === 'blocked') {
      expect(stored.status).toBe('blocked')
      const blocked = refusing.filter(([name]) => blocks?.has(name))
      expect(blocked.length).toBeGreaterThan(0)
      const steps = blocked.map(([name]) => blocks?.get(name)?.step ?? 0)
      expect(steps.includes(decision.ban?.step ?? 0) || steps.every((step) => step === 0)).toBe(true)
      if (decision.ban !== undefined) {
        const ends = blocked.map(([name]) => blocks?.get(name)?.until)
        expect(ends).toContain(decision.ban.until)
      }
    } else {
      expect(decision).not.toHaveProperty('ban')
      // A block that was about to end when the refusal was learned, or of another key.
      expect(['refused', 'blocked', 'impossible']).toContain(stored.status)
    }
  }
}

describe.each(Object.entries(SETUPS))('%s', (_, setup) => {
  const dimensions = policySetOf(setup.tiers[0]).dimensions?.length ?? 1
  const overriding = Object.values(setup.tiers.at(-1) as Policies)

  const { meters } = policySetOf(setup.tiers[0])

  const unitsOf = ({ units, others }: { units: number; others: number }): Units => {
    return meters === undefined ? units : meters.ofPolicy.map((meter) => (meter === 0 ? units : others))
  }

  function operationOf(step: Exclude<Step, { kind: 'pass' }>): Operation {
    const { kind, units } = step
    switch (kind) {
      case 'block':
        return { kind: 'block', durationUs: units * 300_000 }
      case 'override':
        return { kind: 'override', policies: overriding, durationUs: units * 500_000 }
      case 'penalize':
        return { kind, units: unitsOf(step) }
      case 'reset':
      case 'unblock':
        return { kind }
      default:
        throw new Error(`no operation: ${kind}`)
    }
  }

  // promise: cached-refusal-is-right
  test('a refusal here has the status that the store gives it', async () => {
    let cached = 0
    const delays = fc.infiniteStream(fc.double({ min: 0, max: 30, noNaN: true }))
    const property = fc.asyncProperty(steps(dimensions), delays, async (all, delay) => {
      const limiter = new Limiter(setup, () => Math.round(delay.next().value * 1_000) / 1_000)
      const pending: Promise<unknown>[] = []
      for (const step of all) {
        if (step.kind === 'pass') {
          await limiter.time.advance(step.millis)
          continue
        }
        const tier = step.tier % limiter.locals.length
        const local = limiter.locals[tier] as LocalBackend
        const keys = new Keys(step.keys, undefined)
        if (limiter.locals.length > 1 && pending.length > 0) {
          // What another tier changes is seen when its answer arrives.
          await limiter.time.advance(120)
        }
        const answer = step.kind === 'take' ? local.takeBy(keys, unitsOf(step)) : local.execute(keys, operationOf(step))
        if (answer instanceof Promise) {
          pending.push(answer)
        } else if (step.kind === 'take' && (answer as Decision).source === 'cache') {
          limiter.check(tier, keys, unitsOf(step), answer as Decision)
        }
        if (step.kind !== 'take') {
          await limiter.time.advance(120)
        }
        await limiter.time.settled()
      }
      for (let turn = 0; turn < all.length + 2; turn++) {
        await limiter.time.advance(60)
      }
      await Promise.all(pending)
      cached += limiter.cached
    })
    await fc.assert(property, { ...cases(100), examples: [[refusedSteps(dimensions), constantDelays(1)]] })
    expect(cached).toBeGreaterThan(0)
  })
})
