/**
 * Cached refusals against a store whose calls and answers take time: no call is refused here that
 * the store would admit at that time.
 */
import fc from 'fast-check'
import type { Decision } from '../../ts/api/decision.js'
import { engine } from '../../ts/backends/addon.js'
import type { LimiterBackend, TakeManyResults } from '../../ts/backends/limiter-backend.js'
import { LocalBackend } from '../../ts/backends/local/local-backend.js'
import { localOptionsOf } from '../../ts/backends/local/local-options.js'
import type { Operation, OperationResult, ScheduledReservation } from '../../ts/backends/operation.js'
import { MemoryStore, type Policies, type Policy } from '../../ts/index.js'
import { Keys } from '../../ts/input/keys.js'
import { type PolicySet, policySetOf } from '../../ts/policies/policy-set.js'
import { FakeClock } from '../clock.js'
import { SAMPLES } from '../policies/samples.js'

/** An embedded store behind a delay: calls arrive in order, and so do answers. */
class DelayedStore implements LimiterBackend {
  readonly isSync = false
  readonly isDown = false
  readonly backend: LimiterBackend
  readonly #clock: FakeClock
  readonly #delayMs: () => number
  /** The deliveries under way, in order of their times. */
  #deliveries: { readonly at: number; readonly run: () => void }[] = []
  #lastArrival = 0
  #lastAnswer = 0
  calls = 0

  constructor(policySet: PolicySet, clock: FakeClock, delayMs: () => number) {
    this.backend = new MemoryStore({ clock: clock.read }).open(undefined, policySet)
    this.#clock = clock
    this.#delayMs = delayMs
  }

  get origin(): object {
    return this.backend.origin
  }

  take(key: string, cost: number): Promise<Decision> {
    return this.#later(() => this.backend.take(key, cost) as Decision)
  }

  takeBy(keys: Keys, cost: number): Promise<Decision> {
    return this.#later(() => this.backend.takeBy(keys, cost) as Decision)
  }

  takeMany(): TakeManyResults {
    throw new Error('the local backend takes each key separately')
  }

  execute(keys: Keys, operation: Operation): Promise<OperationResult> {
    return this.#later(() => this.backend.execute(keys, operation) as OperationResult)
  }

  schedule(keys: Keys, cost: number, maxWaitUs: number): Promise<ScheduledReservation> {
    return this.#later(() => this.backend.schedule(keys, cost, maxWaitUs) as ScheduledReservation)
  }

  async ready(): Promise<void> {}

  async close(): Promise<void> {}

  /** Advances the clock, and delivers on the way. */
  async advance(millis: number): Promise<void> {
    const end = this.#clock.read() + millis
    for (;;) {
      const next = this.#deliveries.shift()
      if (next === undefined || next.at > end) {
        if (next !== undefined) {
          this.#deliveries.unshift(next)
        }
        break
      }
      this.#clock.advance(next.at - this.#clock.read())
      next.run()
      await settled()
    }
    this.#clock.advance(end - this.#clock.read())
  }

  #later<T>(call: () => T): Promise<T> {
    this.calls++
    return new Promise((resolve, reject) => {
      this.#lastArrival = Math.max(this.#lastArrival, this.#clock.read() + this.#delayMs())
      this.#deliver(this.#lastArrival, () => {
        let answer: T
        try {
          answer = call()
        } catch (error) {
          reject(error)
          return
        }
        this.#lastAnswer = Math.max(this.#lastAnswer, this.#clock.read() + this.#delayMs())
        this.#deliver(this.#lastAnswer, () => resolve(answer))
      })
    })
  }

  #deliver(at: number, run: () => void): void {
    const after = this.#deliveries.findIndex((other) => other.at > at)
    this.#deliveries.splice(after < 0 ? this.#deliveries.length : after, 0, { at, run })
  }
}

/** Lets the promises of an answer settle. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) {
    await Promise.resolve()
  }
}

const { slidingLogs, ...OTHERS } = SAMPLES

const POLICIES: Record<string, Policy | Policies> = {
  ...OTHERS,
  slidingLogs,
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
      const clock = new FakeClock()
      const store = new DelayedStore(policySet, clock, () => Math.round(delays.next().value * 1_000) / 1_000)
      const local = new LocalBackend(store, policySet, options, clock.read, new Set())
      const pending: Promise<unknown>[] = []
      const check = (keys: Keys, cost: number, { source, status, retryAfterMs }: Decision) => {
        if (source === 'cache') {
          cached++
          const peeked = store.backend.execute(keys, { kind: 'peek', cost }) as OperationResult
          expect(peeked.decision.allowed).toBe(false)
          // A block may have ended while the cost does not fit yet, or another part may be blocked.
          if (status !== 'blocked' && peeked.decision.status !== 'blocked') {
            expect(peeked.decision.status).toBe(status)
          }
          if (retryAfterMs !== null) {
            expect(retryAfterMs).toBeGreaterThanOrEqual(1)
          }
        }
      }
      for (const step of all) {
        if (step.kind === 'pass') {
          await store.advance(step.millis)
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
            await store.advance(60)
          }
        }
        await settled()
      }
      // No call is left behind.
      for (let round = 0; round < all.length + 2; round++) {
        await store.advance(60)
      }
      await Promise.all(pending)
    },
  )
  await fc.assert(property, { numRuns: 100 })
  expect(cached).toBeGreaterThan(0)
})

test('a store of the test delays as it says', async () => {
  const policySet = policySetOf(SAMPLES.gcra)
  const clock = new FakeClock()
  const store = new DelayedStore(policySet, clock, () => 5)
  const start = clock.read()
  const decision = store.take('a', 1)
  await store.advance(10)
  expect((await decision).at).toBe(start + 5)
  expect(engine.elapsedMs()).toBeGreaterThan(0)
})
