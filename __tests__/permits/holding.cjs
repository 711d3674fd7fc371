/**
 * Acquires permits of random costs all the time, holds them for random times, and writes the events to
 * a file, until its parent disconnects. With `workers`, worker threads do so.
 */
const { appendFileSync } = require('node:fs')
const { setTimeout: sleep } = require('node:timers/promises')
const { isMainThread, threadId, Worker, workerData, parentPort } = require('node:worker_threads')
const { concurrency, RateLimiter, RedisStore } = require('../../dist/index.js')

const options = isMainThread ? JSON.parse(process.argv[2]) : workerData
const { url, file, limit, ttlMs, keys, workers = 0 } = options
let isRunning = true
let count = 0

function write(event) {
  appendFileSync(file, `${JSON.stringify(event)}\n`)
}

async function hold(limiter, granted) {
  const key = keys[Math.floor(Math.random() * keys.length)]
  const cost = 1 + Math.floor(Math.random() * 2)
  const maxWait = Math.random() < 0.5 ? 0 : 200
  const permit = await limiter.acquire(key, { cost, maxWait })
  if (!permit.allowed) {
    return
  }
  const id = `${process.pid}/${threadId}/${count++}`
  // A permit that was passed on in this process has the decision of its first holder.
  const at = granted.has(permit.decision) ? Date.now() : permit.decision.at
  granted.add(permit.decision)
  write({ kind: 'start', id, key, units: cost, at })
  const { signal } = permit
  // Some hold it for longer than it lasts without renewals.
  const millis = Math.random() < 0.02 ? 3 * ttlMs : Math.random() * 60
  await sleep(millis, undefined, { signal }).catch(() => {})
  write({ kind: 'end', id, at: Date.now() })
  await permit.release()
}

async function main() {
  const store = new RedisStore({ url, commandTimeout: 300 })
  const limiter = new RateLimiter(concurrency({ limit, ttl: `${ttlMs}ms` }), { store, prefix: 'law' })
  const granted = new WeakSet()
  const holders = Array.from({ length: 6 }, async () => {
    while (isRunning) {
      // Redis may be away.
      await hold(limiter, granted).catch(() => sleep(20))
      await sleep(Math.random() * 5)
    }
  })
  await Promise.all(holders)
  await limiter.close()
  await store.close()
}

if (isMainThread && workers > 0) {
  const threads = Array.from({ length: workers }, () => {
    return new Worker(__filename, { workerData: { ...options, workers: 0 } })
  })
  process.once('disconnect', () => {
    for (const thread of threads) {
      thread.postMessage('end')
    }
  })
} else {
  ;(parentPort ?? process).once(isMainThread ? 'disconnect' : 'message', () => {
    isRunning = false
  })
  void main()
}
