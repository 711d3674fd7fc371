// A worker thread that uses the named embedded store, and a store of its own, for a while. Then it
// closes them and exits, or it goes on until it is terminated.
import { setTimeout as sleep } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { gcra, MemoryStore, RateLimiter, RedisStore, type RedisStoreOptions } from 'tollgate'
import { CHECKED_KEY, checkedLimiter } from './checked.js'

/** The task of the thread. */
export interface WorkerTask {
  readonly store: RedisStoreOptions
  /** The name of the embedded store. */
  readonly name: string
  readonly ms: number
  readonly end: 'exit' | 'never'
}

const PAUSE_MS = 20

async function main(): Promise<void> {
  const { store: options, name, ms, end } = workerData as WorkerTask
  const shared = checkedLimiter('sliding', new MemoryStore({ name }))
  const store = new RedisStore(options)
  const limiter = new RateLimiter(gcra({ limit: 20, period: '1s' }), { store, prefix: 'threads' })
  const stop = performance.now() + ms
  while (end === 'never' || performance.now() < stop) {
    // Failures of the store are recorded by the main thread's calls.
    void limiter.take('all').catch(() => {})
    const { allowed, at } = await shared.take(CHECKED_KEY)
    if (allowed) {
      parentPort?.postMessage([Math.round(at * 1_000)])
    }
    await sleep(PAUSE_MS)
  }
  await shared.close()
  await store.close()
}

void main()
