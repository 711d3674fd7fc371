/**
 * Calls of several processes that wait with long and short patience, a few milliseconds away from the store,
 * in virtual time: no call that waits is passed over because others of its process ask.
 */
import { PermitPool } from '../../ts/api/permit-pool.js'
import type { LimiterBackend } from '../../ts/backends/limiter-backend.js'
import { concurrency, MemoryStore, type Permit } from '../../ts/index.js'
import { Keys } from '../../ts/input/keys.js'
import { timeOf } from '../../ts/platform/waiting-time.js'
import { policySetOf } from '../../ts/policies/policy-set.js'
import { TestClock } from '../../ts/testing/index.js'
import { cases } from '../cases.js'
import { Random } from '../random.js'

/** A permit passes within its process for this time, and a process asks for its first call this often. */
const [PASSING_MS, POLL_MS] = [50, 20]

const PATIENT_MS = 60_000

const KEYS = new Keys(['k'], undefined)

/** A call that has waited. */
interface Wait {
  readonly since: number
  readonly isPatient: boolean
  readonly isAllowed: boolean
  /** The time at which it got its permit, or stopped waiting. */
  readonly endedAt: number
}

/** A process that is `tripMs` away from a store. */
class DistantProcess {
  readonly #clock: TestClock
  readonly #pool: PermitPool
  readonly #backend: LimiterBackend
  readonly waits: Wait[] = []

  constructor(clock: TestClock, store: MemoryStore, limit: number, tripMs: number) {
    this.#clock = clock
    this.#pool = new PermitPool(timeOf(clock))
    const near = store.open('patience', policySetOf(concurrency({ limit, ttl: '1h' })))
    const execute: LimiterBackend['execute'] = async (keys, operation) => {
      await clock.sleep(tripMs)
      const result = near.execute(keys, operation)
      await clock.sleep(tripMs)
      return result
    }
    this.#backend = { policySet: near.policySet, execute } as LimiterBackend
  }

  async call(maxWaitMs: number, holdMs: number): Promise<void> {
    const since = this.#clock.now()
    const call = { units: 1, maxWaitMs, signal: undefined, tag: undefined, tier: undefined }
    const permit = await this.#pool.acquire(() => this.#backend, KEYS, call)
    const isPatient = maxWaitMs === PATIENT_MS
    this.waits.push({ since, isPatient, isAllowed: permit.allowed, endedAt: this.#clock.now() })
    if (permit.allowed) {
      await this.#clock.sleep(holdMs)
      await permit.release()
    }
  }
}

/** For each patient call: the time for which it was the one that had waited longest. */
function firstFor(waits: readonly Wait[]): readonly number[] {
  return waits.flatMap((own) => {
    if (!own.isPatient) {
      return []
    }
    // Calls that began to wait in one millisecond have any order.
    const earlier = waits.filter((other) => other !== own && other.since <= own.since && other.endedAt > own.since)
    if (earlier.some(({ since, endedAt }) => since < own.since && endedAt > own.endedAt)) {
      return []
    }
    const ends = earlier.map(({ endedAt }) => endedAt).filter((endedAt) => endedAt <= own.endedAt)
    return [own.endedAt - Math.max(own.since, ...ends)]
  })
}

// promise: permits-in-order
test('a patient call is asked for while calls with short waits keep coming in its process', async () => {
  const clock = new TestClock()
  const store = new MemoryStore({ clock })
  const [busy, other] = [1, 2].map(() => new DistantProcess(clock, store, 1, 2.5)) as [DistantProcess, DistantProcess]
  const calls = [other.call(PATIENT_MS, 30)]
  await clock.advance(10)
  const patient = busy.call(PATIENT_MS, 5)
  const until = clock.now() + 4_000
  // There is always a request under way for one of them.
  for (let number = 0; clock.now() < until; number++) {
    calls.push(busy.call(3, 5))
    if (number % 15 === 0) {
      calls.push(other.call(PATIENT_MS, 30))
    }
    await clock.advance(2)
  }
  await clock.advanceUntil(Promise.all([patient, ...calls]))
  const [{ isAllowed, since, endedAt } = { isAllowed: false, since: 0, endedAt: 0 }] = busy.waits.filter(
    ({ isPatient }) => isPatient,
  )
  expect(isAllowed).toBe(true)
  expect(endedAt - since).toBeLessThan(200)
})

const { numRuns, seed: firstSeed } = cases(40)

test.each(Array.from({ length: numRuns }, (_, index) => firstSeed + index))('mixed patience, seed %i', async (seed) => {
  const random = new Random(seed)
  const clock = new TestClock()
  const store = new MemoryStore({ clock })
  const [limit, tripMs, mostHeldMs] = [random.whole(1, 2), random.whole(1, 10), random.whole(2, 30)]
  const processes = Array.from({ length: random.whole(2, 4) }, () => {
    return new DistantProcess(clock, store, limit, tripMs)
  })
  const calls: Promise<void>[] = []
  for (const process of processes) {
    const [pauseMs, isPatientIn] = [random.whole(2, 12), random.whole(5, 60)]
    const run = async () => {
      for (let number = 0; clock.now() < until; number++) {
        const maxWaitMs = number % isPatientIn === 0 ? PATIENT_MS : random.whole(1, 40)
        calls.push(process.call(maxWaitMs, random.whole(1, mostHeldMs)))
        await clock.sleep(random.whole(1, 2 * pauseMs))
      }
    }
    const until = clock.now() + 3_000
    calls.push(run())
  }
  await clock.advance(4_000)
  await clock.advanceUntil(Promise.all(calls))
  const waits = processes.flatMap((process) => process.waits)
  const patient = waits.filter(({ isPatient }) => isPatient)
  expect(patient.length).toBeGreaterThan(5)
  expect(patient.every(({ isAllowed }) => isAllowed)).toBe(true)
  // Its process begins to ask for it, another one passes a permit, and then it is asked for again.
  const bound = PASSING_MS + 2 * POLL_MS + 8 * tripMs + 2 * mostHeldMs
  expect(Math.max(...firstFor(waits))).toBeLessThan(bound)
})

test('calls that release their permits at once send few requests', async () => {
  const clock = new TestClock()
  const pool = new PermitPool(timeOf(clock))
  const near = new MemoryStore({ clock }).open('surplus', policySetOf(concurrency({ limit: 4, ttl: '1h' })))
  let [underWay, most] = [0, 0]
  const execute: LimiterBackend['execute'] = async (keys, operation) => {
    const isRequest = operation.kind === 'acquire' ? 1 : 0
    underWay += isRequest
    most = Math.max(most, underWay)
    await clock.sleep(5)
    const result = near.execute(keys, operation)
    await clock.sleep(5)
    underWay -= isRequest
    return result
  }
  const backend = { policySet: near.policySet, execute } as LimiterBackend
  const call = { units: 1, maxWaitMs: PATIENT_MS, signal: undefined, tag: undefined, tier: undefined }
  const caller = async () => {
    for (let count = 0; count < 300; count++) {
      const permit = await pool.acquire(() => backend, KEYS, call)
      expect(permit.allowed).toBe(true)
      await (permit as Extract<Permit, { readonly allowed: true }>).release()
    }
  }
  await clock.advanceUntil(Promise.all(Array.from({ length: 8 }, caller)))
  // Those of 8 calls that wait, and 16 of calls that have got other permits.
  expect(most).toBeLessThanOrEqual(24)
})
