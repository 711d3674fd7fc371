// Threads that each load the addon, use Redis and end, one after the other: between them no thread of the process has
// the addon loaded. Every other one leaves its store open. Prints how many of them decided a call.
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

if (isMainThread) {
  const [url, count, commandTimeout] = process.argv.slice(2)
  const statuses = []
  for (let index = 0; index < Number(count); index++) {
    const worker = new Worker(fileURLToPath(import.meta.url), {
      workerData: { url, commandTimeout, closes: index % 2 === 0 },
    })
    const [[status]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
    statuses.push(status)
  }
  console.log(statuses.filter((status) => status === 'allowed').length)
} else {
  const { fixedWindow, RateLimiter, RedisStore } = await import('tollgate')
  const store = new RedisStore({ url: workerData.url, commandTimeout: Number(workerData.commandTimeout) })
  const limiter = new RateLimiter(fixedWindow({ limit: 1_000_000, window: '1d' }), { store, prefix: 'in-turn' })
  const status = await limiter.take('key').then(
    (decision) => decision.status,
    (error) => error.code,
  )
  parentPort.postMessage(status)
  if (workerData.closes) {
    await store.close()
  }
}
