/** 400 calls in eight processes wait for one permit, in virtual time: their order is exact. */
import { concurrency, MemoryStore, RateLimiter } from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { SEED } from '../cases.js'
import { anything } from '../failure.js'
import { VirtualProcess } from './virtual-process.js'

const PROCESSES = 8
const WAITERS = 50
const HOLD_MS = 2
const DISTANCE_MS = 1

/** A permit may pass in its process for this time after the store granted it; a process asks this often. */
const [PASSING_MS, POLL_MS] = [50, 20]

interface Grant {
  readonly process: number
  readonly since: number
  readonly granted: number
  readonly released: number
}

/** The random numbers of the package decide between calls of one millisecond. */
function seededRandom(): () => number {
  let state = SEED % 2_147_483_646 || 1
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

const limiterOn = (store: VirtualProcess) =>
  new RateLimiter(concurrency({ limit: 1 }), { store: anything(store), prefix: 'queued' })

afterEach(() => jest.restoreAllMocks())

// promise: permits-in-order
test('the call that has waited longest is next, but for the documented bounds', async () => {
  jest.spyOn(Math, 'random').mockImplementation(seededRandom())
  const clock = new TestClock()
  const shared = new MemoryStore({ clock })
  const grants: Grant[] = []
  const processes = Array.from({ length: PROCESSES }, () => new VirtualProcess(shared, clock, () => DISTANCE_MS))
  const limiters = processes.map((store) => limiterOn(store))
  const sleep = (millis: number) => new Promise<void>((resolve) => clock.setTimeout(resolve, millis))
  const call = async (process: number, at: number) => {
    await sleep(at)
    const since = clock.now()
    const permit = await (limiters[process] as (typeof limiters)[number]).acquire('key', { maxWait: 60_000 })
    if (!permit.allowed) {
      throw new Error('a call waits for a minute at most')
    }
    const granted = clock.now()
    await sleep(HOLD_MS)
    grants.push({ process, since, granted, released: clock.now() })
    await permit.release()
  }
  const calls = Array.from({ length: PROCESSES * WAITERS }, (_, index) => call(index % PROCESSES, 1 + index / 8))
  await clock.advanceUntil(Promise.all(calls))
  expect(grants).toHaveLength(PROCESSES * WAITERS)
  // One permit: its holders follow each other.
  for (const [index, { granted }] of grants.entries()) {
    expect(granted).toBeGreaterThanOrEqual(grants[index - 1]?.released ?? 0)
  }
  // Calls of a process keep their order.
  for (const process of processes.keys()) {
    const own = grants.filter((grant) => grant.process === process).map(({ since }) => since)
    expect(own).toEqual(own.toSorted((one, other) => one - other))
  }
  // The time for which a call was the one that had waited longest.
  let lastOfEarlier = 0
  const firstFor = grants
    .toSorted((one, other) => one.since - other.since)
    .map(({ since, granted }) => {
      const from = Math.max(since, lastOfEarlier)
      lastOfEarlier = Math.max(lastOfEarlier, granted)
      return Math.max(0, granted - from)
    })
  // The permit passes on, is released, and the next process asks for it.
  const longest = PASSING_MS + HOLD_MS + POLL_MS + 4 * DISTANCE_MS
  expect(firstFor.filter((millis) => millis > longest)).toEqual([])
  // Calls of other processes have been overtaken, so the bound has been tried.
  expect(Math.max(...firstFor)).toBeGreaterThan(PASSING_MS)
})
