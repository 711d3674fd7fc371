/** Limiters, stores and worker threads that come and go, and an embedded store that overflows. */
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { fixedWindow, gcra, MemoryStore, RateLimiter, RedisStore, type RedisStoreOptions } from 'tollgate'
import type { WorkerTask } from '../worker.js'
import type { Activity, Bench } from './activity.js'

/** Limiters on a store that are closed after some calls, in part with calls in flight. */
export function briefLimiters(bench: Bench): Activity[] {
  const { store, calls } = bench
  return [
    {
      everyMs: 400,
      run: async () => {
        const prefix = `brief-${bench.below(20)}`
        const limiter = new RateLimiter(gcra({ limit: 10, period: '1s' }), { store, prefix })
        const kind = bench.kind('take', 0, ['CLOSED'])
        await calls.make(kind, () => limiter.take(bench.key()))
        const late = bench.random() < 0.5 ? calls.make(kind, () => limiter.take(bench.key())) : undefined
        await calls.make(bench.kind('close'), () => limiter.close())
        await late
      },
    },
  ]
}

/** Stores that connect, decide and are closed, and limiters that share the connection of a URL. */
export function briefStores(bench: Bench, options: RedisStoreOptions): Activity[] {
  const { calls } = bench
  return [
    {
      everyMs: 3_000,
      run: async () => {
        const store = new RedisStore(options)
        const limiter = new RateLimiter(gcra({ limit: 10, period: '1s' }), { store, prefix: 'brief-store' })
        const kind = bench.kind('first take', 0, ['CLOSED'])
        await calls.make(kind, () => limiter.take(bench.key()))
        const late = calls.make(kind, () => limiter.take(bench.key()))
        await calls.make(bench.kind('close'), () => store.close())
        await late
      },
    },
  ]
}

/** An embedded store with more keys than it may hold. */
export function overflow(bench: Bench): Activity[] {
  const { calls } = bench
  const store = new MemoryStore({ maxKeys: 2_000 })
  const limiter = new RateLimiter(fixedWindow({ limit: 5, window: '10s' }), { store, prefix: 'overflow' })
  return [
    {
      everyMs: 500,
      run: async () => {
        for (let call = 0; call < 500; call++) {
          limiter.takeSync(bench.freshKey())
        }
        const key = bench.freshKey()
        await calls.make(bench.kind('change', 0, ['STORE_FULL']), () => limiter.block(key, '1s'))
        await calls.make(bench.kind('take'), () => limiter.take(key))
      },
      close: async () => {
        await limiter.close()
      },
    },
  ]
}

/** Worker threads on the named embedded store and a store of their own, which exit or are terminated. */
export function workers(
  bench: Bench,
  task: Omit<WorkerTask, 'end'>,
  onUnits: (units: readonly number[]) => void,
): Activity[] {
  return [
    {
      everyMs: 5_000,
      run: async () => {
        const end = bench.random() < 0.5 ? 'exit' : 'never'
        const workerData: WorkerTask = { ...task, end }
        const worker = new Worker(join(__dirname, '../worker.js'), { workerData })
        worker.on('message', onUnits)
        worker.on('error', (error) => bench.calls.violate(`worker thread: ${error.stack}`))
        const exit = once(worker, 'exit')
        if (end === 'never') {
          await sleep(task.ms)
          await worker.terminate()
        }
        await exit
      },
    },
  ]
}
