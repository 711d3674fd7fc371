// A process that ends with calls in flight: by itself, by process.exit(), or after it has
// terminated its worker threads.
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

/** Starts calls without waiting for them. Their errors are no failure. */
function midCall(limiter: RateLimiter): void {
  for (let call = 0; call < 500; call++) {
    void limiter.take(`key-${call}`).catch(() => {})
  }
}

async function main(): Promise<void> {
  const store = new RedisStore({ url, commandTimeout: TIMEOUT_MS })
  const limiter = new RateLimiter(POLICIES.count, { store, prefix: 'ending' })
  // The deadline is short, and processes that start at the same time are slow.
  await until('the store answers', () => limiter.ready().then(() => true))
  if (!isMainThread) {
    parentPort?.postMessage('ready')
    await once(parentPort as NonNullable<typeof parentPort>, 'message')
    for (;;) {
      midCall(limiter)
      await sleep(1)
    }
  }
  // `ready` may have waited for the connection. The first call on an open connection makes the
  // event loop watch it, with another socket.
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
  // The calls have been sent, and most have no answer yet.
  await new Promise((resolve) => setImmediate(resolve))
  if (how === 'exit') {
    process.exit()
  }
  await sleep(workers.length > 0 ? 30 : 0)
  await Promise.all(workers.map((worker) => worker.terminate()))
  // The connections of the workers must be closed with them.
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
