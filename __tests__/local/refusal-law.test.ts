/**
 * Cached refusals against a store whose calls and answers take time: no call is refused here that
 * the store would admit at that time.
 */
import fc from 'fast-check'
import type { Decision } from '../../ts/api/decision.js'
import { engine } from '../../ts/backends/addon.js'
import { LocalBackend } from '../../ts/backends/local/local-backend.js'
import { localOptionsOf } from '../../ts/backends/local/local-options.js'
import type { Operation, OperationResult } from '../../ts/backends/operation.js'
import { isNone, type Units } from '../../ts/backends/units.js'
import { MemoryStore, type Policies, type Policy } from '../../ts/index.js'
import { Keys } from '../../ts/input/keys.js'
import { type PolicySet, policySetOf } from '../../ts/policies/policy-set.js'
import { cases } from '../cases.js'
import { SAMPLES } from '../policies/samples.js'
import { checkFields } from '../simulation/decisions.js'
import { constantDelays, DelayedStore } from './delayed-store.js'
import { VirtualTime } from './virtual-time.js'

const POLICIES: Record<string, Policy | Policies> = {
  ...SAMPLES,
  'several, one key': { one: SAMPLES.gcra, other: SAMPLES.fixedWindow },
  'several keys': {
    ip: { ...SAMPLES.gcra, per: 'ip' },
    account: { ...SAMPLES.fixedWindow, per: 'account' },
  },
  'meters, one key': {
    requests: SAMPLES.gcra,
    tokens: { ...SAMPLES.tokenBucket, meter: 'tokens' },
    most: { ...SAMPLES['slidingLog, limits'], meter: 'tokens' },
    cents: { ...SAMPLES.fixedWindow, meter: 'cents' },
  },
  'meters, several keys': {
    ip: { ...SAMPLES.leakyBucket, per: 'ip' },
    tokens: { ...SAMPLES.gcra, per: 'account', meter: 'tokens' },
    tokensOfIp: { ...SAMPLES['slidingWindow, list'], per: 'ip', meter: 'tokens' },
    cents: { ...SAMPLES.fixedWindow, per: 'account', meter: 'cents' },
  },
}

const KEY = fc.constantFrom('a', 'b')

/** `units` are those of each meter. */
type Step =
  | { readonly kind: 'pass'; readonly millis: number }
  | { readonly kind: 'take'; readonly units: number[]; readonly keys: string[] }
  | { readonly kind: 'takeUpTo' | 'reserve' | 'penalize'; readonly units: number[]; readonly keys: string[] }
  | { readonly kind: 'reset' | 'block' | 'unblock'; readonly keys: string[] }

const keysOf = (count: number) => fc.array(KEY, { minLength: count, maxLength: count })

/** The number of key dimensions, and that of meters; 1 without meters. */
function sizesOf({ dimensions, meters }: PolicySet): readonly [number, number] {
  return [dimensions?.length ?? 1, meters?.names.length ?? 1]
}

function steps([dimensions, meters]: readonly [number, number]): fc.Arbitrary<Step[]> {
  const millis = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 5_000_000 }))
  const own = fc.integer({ min: meters === 1 ? 1 : 0, max: 11 })
  const ofMeter = fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, own)
  const units = fc.array(ofMeter, { minLength: meters, maxLength: meters })
  const take = { kind: fc.constant('take' as const), units, keys: keysOf(dimensions) }
  const operation = { kind: fc.constantFrom('takeUpTo' as const, 'reserve' as const, 'penalize' as const) }
  const change = { kind: fc.constantFrom('reset' as const, 'block' as const, 'unblock' as const) }
  const one = fc.oneof(
    { weight: 12, arbitrary: fc.record(take) },
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('pass' as const), millis }) },
    { weight: 2, arbitrary: fc.record({ ...operation, units, keys: keysOf(dimensions) }) },
    { weight: 1, arbitrary: fc.record({ ...change, keys: keysOf(dimensions) }) },
  )
  return fc.array(one, { minLength: 20, maxLength: 120 })
}

/** Random steps leave most stores without a refusal: these have one for each policy. */
function refusedSteps([dimensions, meters]: readonly [number, number]): Step[] {
  const take: Step = { kind: 'take', units: Array(meters).fill(1), keys: Array(dimensions).fill('a') }
  return Array.from({ length: 60 }, (): Step[] => [take, take, take, take, { kind: 'pass', millis: 1 }]).flat()
}

function unitsOf({ meters }: PolicySet, units: readonly number[]): Units {
  return meters === undefined ? (units[0] as number) : meters.ofPolicy.map((meter) => units[meter] as number)
}

function operationOf(step: Exclude<Step, { kind: 'pass' | 'take' }>, units: Units): Operation {
  switch (step.kind) {
    case 'reserve':
      return { kind: 'reserve', units, hold: crypto.getRandomValues(new Uint8Array(16)), durationUs: 1e9 }
    case 'block':
      return { kind: 'block', durationUs: 30_000 }
    case 'takeUpTo':
      return { kind: step.kind, units: units as number }
    case 'penalize':
      return { kind: step.kind, units }
    default:
      return { kind: step.kind }
  }
}

/** Whether the policies have the operation: takes and reservations of nothing are refused before a backend is called. */
function isPossible({ kind }: Step, { policies }: PolicySet, units: Units): boolean {
  switch (kind) {
    case 'takeUpTo':
      return typeof units === 'number'
    case 'reserve':
      return !isNone(units) && policies.every(({ policy }) => policy.algorithm !== 'slidingCounter')
    default:
      return true
  }
}

// promise: cached-refusal-is-right
test.each(Object.entries(POLICIES))('%s: the store would refuse what is refused here', async (_, policies) => {
  const policySet = policySetOf(policies)
  const sizes = sizesOf(policySet)
  const isPlain = policySet.dimensions === undefined && policySet.meters === undefined
  const options = localOptionsOf({ refusals: '10s' }, policySet)
  if (options === undefined) {
    throw new Error('no options')
  }
  let cached = 0
  const property = fc.asyncProperty(
    steps(sizes),
    fc.infiniteStream(fc.double({ min: 0, max: 30, noNaN: true })),
    async (all, delays) => {
      const time = new VirtualTime()
      const backend = new MemoryStore({ clock: time.clock.read }).open(undefined, policySet)
      const store = new DelayedStore(backend, time, () => Math.round(delays.next().value * 1_000) / 1_000)
      const local = new LocalBackend(store, options, time.clock.read, new Set())
      const pending: Promise<unknown>[] = []
      const check = (keys: Keys, cost: Units, decision: Decision) => {
        const { source, status, retryAfterMs } = decision
        if (source === 'cache') {
          checkFields(decision)
          cached++
          const peeked = store.backend.execute(keys, { kind: 'peek', cost }) as OperationResult
          expect(peeked.decision.allowed).toBe(false)
          // A block may have ended while the cost does not fit yet, or another part may be blocked.
          if (status !== 'blocked' && peeked.decision.status !== 'blocked') {
            expect(peeked.decision.status).toBe(status)
            // It is an answer to a call that cost no more, and counts from when it arrived, at most 30 ms ago.
            const latest = (peeked.decision.retryAfterMs ?? Number.POSITIVE_INFINITY) + 31
            expect(retryAfterMs ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(latest)
            for (const [name, own] of Object.entries(peeked.decision.policies)) {
              const latest = (own.retryAfterMs ?? Number.POSITIVE_INFINITY) + 31
              const given = decision.policies[name]?.retryAfterMs
              expect(given ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(latest)
            }
          }
          if (retryAfterMs !== null) {
            expect(retryAfterMs).toBeGreaterThanOrEqual(1)
          }
        }
      }
      for (const step of all) {
        if (step.kind === 'pass') {
          await time.advance(step.millis)
          continue
        }
        const keys = new Keys(step.keys, undefined)
        const units = unitsOf(policySet, 'units' in step ? step.units : [])
        if (step.kind === 'take') {
          const decision = isPlain ? local.take(step.keys[0] as string, units as number) : local.takeBy(keys, units)
          if (decision instanceof Promise) {
            pending.push(decision)
          } else {
            check(keys, units, decision)
          }
        } else if (isPossible(step, policySet, units)) {
          const result = local.execute(keys, operationOf(step, units))
          if (result instanceof Promise) {
            pending.push(result)
          } else {
            check(keys, step.kind === 'reserve' ? units : 1, result.decision)
          }
          if (['reset', 'unblock'].includes(step.kind)) {
            // What other limiters change is seen after the refusals' time: wait until this change is
            // in the store, so that the check compares with it.
            await time.advance(60)
          }
        }
        await time.settled()
      }
      // No call is left behind.
      for (let round = 0; round < all.length + 2; round++) {
        await time.advance(60)
      }
      await Promise.all(pending)
    },
  )
  await fc.assert(property, { ...cases(100), examples: [[refusedSteps(sizes), constantDelays(1)]] })
  expect(cached).toBeGreaterThan(0)
})

test('a store of the test delays as it says', async () => {
  const policySet = policySetOf(SAMPLES.gcra)
  const time = new VirtualTime()
  const store = new DelayedStore(new MemoryStore({ clock: time.clock.read }).open(undefined, policySet), time, () => 5)
  const start = time.now
  const decision = store.take('a', 1)
  await time.advance(10)
  expect((await decision).at).toBe(start + 5)
  expect(engine.elapsedMs()).toBeGreaterThan(0)
})
