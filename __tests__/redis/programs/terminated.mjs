// A process whose worker threads use Redis and are terminated during their calls, repeatedly.
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { fixedWindow, RateLimiter, RedisStore } from 'tollgate'

const url = isMainThread ? process.argv[2] : workerData
const store = new RedisStore({ url, commandTimeout: 30_000 })
const limiter = new RateLimiter(fixedWindow({ limit: 1_000_000_000, window: '1d' }), { store, prefix: 'terminated' })

async function forever() {
  for (;;) {
    await limiter.take('key')
  }
}

if (isMainThread) {
  for (let round = 0; round < 8; round++) {
    const workers = Array.from({ length: 4 }, () => new Worker(fileURLToPath(import.meta.url), { workerData: url }))
    await Promise.all(workers.map((worker) => once(worker, 'message')))
    // At a different point of their calls in each iteration.
    await new Promise((resolve) => setTimeout(resolve, 5 * round))
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
  const { limit, remaining } = await limiter.take('key')
  console.log(limit - remaining)
} else {
  await limiter.take('key')
  parentPort.postMessage('ready')
  await Promise.all(Array.from({ length: 64 }, forever))
}
