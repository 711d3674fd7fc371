// Worker threads that keep one limit, without a server: they open the same named MemoryStore.
// Run it:  node examples/worker-threads.mjs
import { once } from 'node:events'
import { parentPort, threadId, Worker } from 'node:worker_threads'
import { fixedWindow, MemoryStore, RateLimiter } from 'tollgate'

const THREADS = 4
const CALLS = 1_000

// Each thread makes objects of its own; the counts behind the name are the process's. Without a name every thread
// would have its own, and admit as much as all of them here. (Processes share nothing so: for them there is Redis.)
const store = new MemoryStore({ name: 'shared' })

// All threads must give a prefix the same policy: another one is INVALID_OPTION.
const limiter = new RateLimiter(fixedWindow({ limit: 1_000, window: '1h' }), { store, prefix: 'jobs' })

if (parentPort === null) {
  const workers = Array.from({ length: THREADS }, () => new Worker(new URL(import.meta.url)))
  // Together, so that they compete.
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  for (const worker of workers) worker.postMessage('begin')
  const counts = await Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]))
  for (const { thread, admitted } of counts) {
    console.log(`thread ${thread}: ${admitted} of ${CALLS} calls admitted`)
  }
  const total = counts.reduce((sum, { admitted }) => sum + admitted, 0)
  console.log(`together: ${total} of ${THREADS * CALLS}`)
  // The counts outlive the threads that made them: one that has crashed and begins again is given nothing anew.
  const { status, remaining } = await limiter.peek('tenant:7')
  console.log(`afterwards: ${status}, ${remaining} remaining`)
} else {
  parentPort.postMessage('ready')
  await once(parentPort, 'message')
  let admitted = 0
  for (let call = 0; call < CALLS; call++) {
    // No promise, and no message to another thread: the engine is in all of them.
    if (limiter.takeSync('tenant:7').allowed) admitted++
  }
  parentPort.postMessage({ thread: threadId, admitted })
}
