// Worker threads that share one limit without a server: they open the same named MemoryStore.
// Run it:  node examples/worker-threads.mjs
import { once } from 'node:events'
import { parentPort, threadId, Worker } from 'node:worker_threads'
import { fixedWindow, MemoryStore, RateLimiter } from 'tollgate'

const THREADS = 4
const CALLS = 1_000

// Each thread creates its own objects; the named counts belong to the process. Without a name,
// every thread would have its own counts, and admit as much as all threads here. (Processes cannot
// share a MemoryStore: use Redis for them.)
const store = new MemoryStore({ name: 'shared' })

// All threads must use the same policy for a prefix: another policy throws INVALID_OPTION.
const limiter = new RateLimiter(fixedWindow({ limit: 1_000, window: '1h' }), { store, prefix: 'jobs' })

if (parentPort === null) {
  const workers = Array.from({ length: THREADS }, () => new Worker(new URL(import.meta.url)))
  // Start together, so that they compete.
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  for (const worker of workers) worker.postMessage('begin')
  const counts = await Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]))
  for (const { thread, admitted } of counts) {
    console.log(`thread ${thread}: ${admitted} of ${CALLS} calls admitted`)
  }
  const total = counts.reduce((sum, { admitted }) => sum + admitted, 0)
  console.log(`together: ${total} of ${THREADS * CALLS}`)
  // The counts outlive the threads: a thread that has crashed and starts again gets no new units.
  const { status, remaining } = await limiter.peek('tenant:7')
  console.log(`afterwards: ${status}, ${remaining} remaining`)
} else {
  parentPort.postMessage('ready')
  await once(parentPort, 'message')
  let admitted = 0
  for (let call = 0; call < CALLS; call++) {
    // No promise and no message to another thread: the engine runs in every thread.
    if (limiter.takeSync('tenant:7').allowed) admitted++
  }
  parentPort.postMessage({ thread: threadId, admitted })
}
