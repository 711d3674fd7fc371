// A worker thread that takes units of one key of a named store, as fast as it can.
import { parentPort, workerData } from 'node:worker_threads'
import { MemoryStore, RateLimiter } from 'tollgate'

const { policy, name, key, calls, frozenAt } = workerData
const clock = frozenAt === undefined ? {} : { clock: () => frozenAt }
const limiter = new RateLimiter(policy, { store: new MemoryStore({ name, ...clock }) })

parentPort.postMessage('ready')
parentPort.once('message', async () => {
  const [admitted, refused] = [[], []]
  for (let call = 0; call < calls; call++) {
    const decision = call % 2 === 0 ? limiter.takeSync(key) : await limiter.take(key)
    const times = decision.allowed ? admitted : refused
    times.push(Math.round(decision.at * 1_000))
  }
  parentPort.postMessage([new Float64Array(admitted), new Float64Array(refused)])
  parentPort.close()
})
