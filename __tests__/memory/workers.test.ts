import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { fixedWindow, gcra, MemoryStore, type Policy, RateLimiter, tokenBucket } from '../../ts/index.js'
import { until } from '../servers/until.js'

const HAMMER = join(__dirname, 'hammer.mjs')
const FROZEN = Date.UTC(2026, 5, 1)

interface Work {
  readonly policy: Policy
  readonly name: string
  readonly key: string
  readonly calls: number
  readonly frozenAt?: number
}

/** Four workers that start together when all are ready. */
async function started(work: Work): Promise<Worker[]> {
  const workers = Array.from({ length: 4 }, () => new Worker(HAMMER, { workerData: work }))
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  for (const worker of workers) {
    worker.postMessage('begin')
  }
  return workers
}

/** The microseconds of the calls that were admitted and of those that were refused, in order. */
async function timesOf(work: Work): Promise<{ readonly admitted: Float64Array; readonly refused: Float64Array }> {
  const workers = await started(work)
  const reports = await Promise.all(
    workers.map(async (worker) => (await once(worker, 'message'))[0] as [Float64Array, Float64Array]),
  )
  await Promise.all(workers.map((worker) => worker.terminate()))
  const sorted = (which: 0 | 1) => Float64Array.from(reports.flatMap((report) => [...report[which]])).sort()
  return { admitted: sorted(0), refused: sorted(1) }
}

test.each([
  fixedWindow({ limit: 777, window: '1h' }),
  tokenBucket({ capacity: 777, refill: { tokens: 1, every: '1h' } }),
  gcra({ limit: 777, period: '1h' }),
])('four threads on one key of a named store admit exactly the limit: $algorithm', async (policy) => {
  const work = { policy, name: `exact-${policy.algorithm}`, key: 'hot', calls: 5_000, frozenAt: FROZEN }
  expect((await timesOf(work)).admitted).toHaveLength(777)
})

// promise: embedded-counts-stay
test('by the system clock four threads keep the law and get the promised units', async () => {
  const [burst, everyUs] = [4_000, 50]
  const policy = gcra({ limit: 20_000, period: '1s', burst })
  const { admitted, refused } = await timesOf({ policy, name: 'law', key: 'hot', calls: 100_000 })
  // The oracle: a unit more is due at a time, and no unit may be due further ahead than the burst.
  let dueAt = 0
  const fits = (at: number) => Math.max(dueAt, at) + everyUs - at <= burst * everyUs
  let next = 0
  let excess = 0
  let wrongRefusals = 0
  for (const at of admitted) {
    for (; next < refused.length && (refused[next] as number) < at; next++) {
      wrongRefusals += fits(refused[next] as number) ? 1 : 0
    }
    excess += fits(at) ? 0 : 1
    dueAt = Math.max(dueAt, at) + everyUs
  }
  expect([excess, wrongRefusals]).toEqual([0, 0])
  expect(admitted.length).toBeGreaterThan(burst)
  expect(next).toBeGreaterThan(0)
})

test('workers can be terminated during a call, and the store still works', async () => {
  const policy = gcra({ limit: 1, period: '1h', burst: 1_000_000 })
  const name = 'terminated'
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ name }) })
  const remaining = async () => (await limiter.peek('hot', 0)).remaining
  for (let round = 0; round < 5; round++) {
    const workers = await started({ policy, name, key: 'hot', calls: Number.POSITIVE_INFINITY })
    const before = await remaining()
    await until('they call', async () => (await remaining()) < before - 100)
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
  const left = await remaining()
  expect(limiter.takeSync('hot').remaining).toBe(left - 1)
})
