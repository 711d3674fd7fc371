// A process that ends in mid-call, in one of several ways: by itself, by process.exit(), or after its worker
// threads, which it terminates.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { RateLimiter, RedisStore } from 'tollgate'
import { until } from '../../__tests__/servers/until.js'
import { sockets, socketsSettle } from '../resources.js'
import { TIMEOUT_MS } from '../scene.js'
import { POLICIES } from '../traffic.js'

const [how, url] = (isMainThread ? process.argv.slice(2) : workerData) as [string, string]

const WORKERS = 4

/** Starts calls that nobody waits for: whatever becomes of them is no failure. */
function midCall(limiter: RateLimiter): void {
  for (let call = 0; call < 500; call++) {
    void limiter.take(`key-${call}`).catch(() => {})
  }
}

async function main(): Promise<void> {
  const store = new RedisStore({ url, commandTimeoutMs: TIMEOUT_MS })
  const limiter = new RateLimiter(POLICIES.count, { store, prefix: 'ending' })
  // The deadline is short, and processes that begin at once are slow.
  await until('the store answers', () => limiter.ready().then(() => true))
  if (!isMainThread) {
    parentPort?.postMessage('ready')
    await once(parentPort as NonNullable<typeof parentPort>, 'message')
    for (;;) {
      midCall(limiter)
      await sleep(1)
    }
  }
  // It may have waited for the link; the event loop watches the link, by a socket of its own, from the first call that
  // finds it up.
  await until('a call is decided', () => limiter.take('first'))
  const before = sockets()
  const workers = how === 'terminate' ? Array.from({ length: WORKERS }, newWorker) : []
  await Promise.all(workers.map((worker) => once(worker, 'message')))
  console.log('ready')
  await once(process.stdin, 'data')
  midCall(limiter)
  for (const worker of workers) {
    worker.postMessage('go')
  }
  // The calls have been sent, and most are not answered yet.
  await new Promise((resolve) => setImmediate(resolve))
  if (how === 'exit') {
    process.exit()
  }
  await sleep(workers.length > 0 ? 30 : 0)
  await Promise.all(workers.map((worker) => worker.terminate()))
  // The connections of the workers have gone with them.
  const left = (await socketsSettle(before)) - before
  if (left > 0) {
    throw new Error(`${left} sockets left open by worker threads`)
  }
}

function newWorker(): Worker {
  return new Worker(__filename, { workerData: [how, url] })
}

main().catch((error: unknown) => {
  console.error(error)
  process.exit(1)
})
