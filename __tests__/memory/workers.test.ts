import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { fixedWindow, gcra, MemoryStore, type Policy, RateLimiter, tokenBucket } from '../../ts/index.js'

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

async function admittedBy(work: Work): Promise<number[]> {
  const workers = await started(work)
  const admitted = await Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0] as number[]))
  await Promise.all(workers.map((worker) => worker.terminate()))
  return admitted.flat().sort((one, other) => one - other)
}

test.each([
  fixedWindow({ limit: 777, window: '1h' }),
  tokenBucket({ capacity: 777, refill: { tokens: 1, every: '1h' } }),
  gcra({ limit: 777, period: '1h' }),
])('four threads on one key of a named store admit exactly the limit: $algorithm', async (policy) => {
  const work = { policy, name: `exact-${policy.algorithm}`, key: 'hot', calls: 5_000, frozenAt: FROZEN }
  expect(await admittedBy(work)).toHaveLength(777)
})

test('by the system clock four threads keep the law and get the promised units', async () => {
  // The burst covers a pause in which a busy machine stalls all four.
  const policy = gcra({ limit: 20_000, period: '1s', burst: 4_000 })
  const admitted = await admittedBy({ policy, name: 'law', key: 'hot', calls: 400_000 })
  // Linear: the maximum, before any call, of the units taken less the units that the rate has
  // given.
  let min = Number.POSITIVE_INFINITY
  let worst = 0
  admitted.forEach((at, index) => {
    min = Math.min(min, index - at * 0.02)
    worst = Math.max(worst, index + 1 - at * 0.02 - min)
  })
  expect(worst).toBeLessThanOrEqual(4_000.001)
  const seconds = ((admitted.at(-1) as number) - (admitted[0] as number)) / 1e6
  expect(admitted.length).toBeGreaterThanOrEqual(0.98 * seconds * 20_000)
})

test('workers can be terminated during a call, and the store still works', async () => {
  const policy = gcra({ limit: 1, period: '1h', burst: 1_000_000 })
  const name = 'terminated'
  for (let round = 0; round < 5; round++) {
    const workers = await started({ policy, name, key: 'hot', calls: Number.POSITIVE_INFINITY })
    await new Promise((resolve) => setTimeout(resolve, 30))
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ name }) })
  const { remaining } = limiter.takeSync('hot')
  expect(remaining).toBeLessThan(999_999)
  expect(limiter.takeSync('hot').remaining).toBeLessThanOrEqual(remaining)
})
