// A thread that takes two units during an outage, and posts their sources.
import { parentPort, workerData } from 'node:worker_threads'
import { RateLimiter, RedisStore } from 'tollgate'

const { url, policy, prefix, onStoreFailure } = workerData
const store = new RedisStore({ url, commandTimeout: 50 })
const limiter = new RateLimiter(policy, { store, prefix, onStoreFailure })
parentPort.postMessage(await limiter.take('a', 2))
await store.close()
