// A worker thread that calls `takeSync` for a requested time, and reports its calls per second.
import { parentPort, workerData } from 'node:worker_threads'
import { gcra, MemoryStore, RateLimiter } from 'tollgate'

const KEYS = Array.from({ length: 10_000 }, (_, number) => `user:${number}`)
const LAP = 1_000

const limiter = new RateLimiter(gcra({ limit: 1_000_000, period: '7d' }), {
  store: new MemoryStore({ name: 'workers' }),
})
let next = Math.floor(KEYS.length * workerData.part)
const sink = { last: undefined }

function lap() {
  let allowed = 0
  for (let call = 0; call < LAP; call++) {
    const decision = limiter.takeSync(KEYS[next])
    next = next + 1 === KEYS.length ? 0 : next + 1
    if (decision.allowed) allowed++
    sink.last = decision
  }
  return allowed
}

parentPort.on('message', (millis) => {
  const start = performance.now()
  let calls = 0
  let elapsed = 0
  while (elapsed < millis) {
    if (lap() !== LAP) throw new Error('a call was not allowed')
    calls += LAP
    elapsed = performance.now() - start
  }
  parentPort.postMessage((calls / elapsed) * 1_000)
})
parentPort.postMessage('ready')
