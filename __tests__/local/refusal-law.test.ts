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
import { MemoryStore, type Policies, type Policy } from '../../ts/index.js'
import { Keys } from '../../ts/input/keys.js'
import { policySetOf } from '../../ts/policies/policy-set.js'
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
}

const KEY = fc.constantFrom('a', 'b')

type Step =
  | { readonly kind: 'pass'; readonly millis: number }
  | { readonly kind: 'take'; readonly units: number; readonly keys: string[] }
  | { readonly kind: 'takeUpTo' | 'reserve' | 'penalize'; readonly units: number; readonly keys: string[] }
  | { readonly kind: 'reset' | 'block' | 'unblock'; readonly keys: string[] }

const keysOf = (count: number) => fc.array(KEY, { minLength: count, maxLength: count })

function steps(dimensions: number): fc.Arbitrary<Step[]> {
  const millis = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 5_000_000 }))
  const units = fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: 11 }))
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
function refusedSteps(dimensions: number): Step[] {
  const take: Step = { kind: 'take', units: 1, keys: Array(dimensions).fill('a') }
  return Array.from({ length: 60 }, (): Step[] => [take, take, take, take, { kind: 'pass', millis: 1 }]).flat()
}

function operationOf(step: Exclude<Step, { kind: 'pass' | 'take' }>): Operation {
  switch (step.kind) {
    case 'reserve':
      return { kind: 'reserve', units: step.units, hold: crypto.getRandomValues(new Uint8Array(16)), durationUs: 1e9 }
    case 'block':
      return { kind: 'block', durationUs: 30_000 }
    case 'takeUpTo':
    case 'penalize':
      return { kind: step.kind, units: step.units }
    default:
      return { kind: step.kind }
  }
}

// promise: cached-refusal-is-right
test.each(Object.entries(POLICIES))('%s: the store would refuse what is refused here', async (name, policies) => {
  const policySet = policySetOf(policies)
  const dimensions = policySet.dimensions?.length ?? 1
  const options = localOptionsOf({ refusals: '10s' }, policySet)
  if (options === undefined) {
    throw new Error('no options')
  }
  let cached = 0
  const property = fc.asyncProperty(
    steps(dimensions),
    fc.infiniteStream(fc.double({ min: 0, max: 30, noNaN: true })),
    async (all, delays) => {
      const time = new VirtualTime()
      const backend = new MemoryStore({ clock: time.clock.read }).open(undefined, policySet)
      const store = new DelayedStore(backend, time, () => Math.round(delays.next().value * 1_000) / 1_000)
      const local = new LocalBackend(store, options, time.clock.read, new Set())
      const pending: Promise<unknown>[] = []
      const check = (keys: Keys, cost: number, decision: Decision) => {
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
        if (step.kind === 'take') {
          const decision =
            dimensions === 1 ? local.take(step.keys[0] as string, step.units) : local.takeBy(keys, step.units)
          if (decision instanceof Promise) {
            pending.push(decision)
          } else {
            check(keys, step.units, decision)
          }
        } else if (step.kind !== 'reserve' || name !== 'slidingCounter') {
          const result = local.execute(keys, operationOf(step))
          if (result instanceof Promise) {
            pending.push(result)
          } else {
            check(keys, step.kind === 'reserve' ? step.units : 1, result.decision)
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
  await fc.assert(property, { ...cases(100), examples: [[refusedSteps(dimensions), constantDelays(1)]] })
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
