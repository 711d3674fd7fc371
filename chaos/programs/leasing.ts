// A process that calls limiters with leases, in its main thread and in a worker thread. It writes
// each admitted call to a file at once, so that a killed process leaves a complete trace.
import { once } from 'node:events'
import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, Worker, workerData } from 'node:worker_threads'
import { type Decision, RateLimiter, RedisStore, TollgateError } from 'tollgate'
import { LEASED, LEASED_LOCAL, LIMITERS, RECORD_BYTES } from '../leased.js'
import { LoopDelay } from '../loop-delay.js'
import { TIMEOUT_MS } from '../scene.js'

/** The task of the process. */
export interface Leasing {
  readonly url: string
  readonly ms: number
  /** The path of the trace; that of the worker thread has a suffix. */
  readonly file: string
}

/** The report of a thread. */
export interface LeasingReport {
  readonly calls: number
  readonly allowed: number
  readonly longest: { readonly net: number; readonly raw: number }
  readonly loopDelayMs: number
  readonly errors: Readonly<Record<string, number>>
  /** The number of decisions by source. */
  readonly sources: Readonly<Partial<Record<Decision['source'], number>>>
}

/** Callers of each limiter, and the calls that one makes between two pauses. */
const CALLERS = 6
const CALLS_AT_ONCE = 10
const PAUSE_MS = 4

async function load({ url, ms, file }: Leasing, ready: () => Promise<unknown>): Promise<LeasingReport> {
  const trace = openSync(file, 'a')
  const store = new RedisStore({ url, commandTimeout: TIMEOUT_MS })
  const limiters = LIMITERS.map(
    (name) => new RateLimiter(LEASED[name], { store, prefix: name, local: LEASED_LOCAL[name] }),
  )
  while (store.status().state !== 'up') {
    await sleep(10)
  }
  await ready()
  const delay = new LoopDelay()
  const sources: Partial<Record<Decision['source'], number>> = {}
  const errors: Record<string, number> = {}
  const late: (readonly [start: number, settled: number])[] = []
  let [calls, admitted, longest] = [0, 0, 0]
  delay.start()
  const end = performance.now() + ms
  const call = async (which: number) => {
    calls++
    const start = performance.now()
    const answer = await limiters[which]?.take('key').catch((error: unknown) => error as Error)
    const usedAt = process.hrtime.bigint()
    const settled = performance.now()
    if (settled - start > TIMEOUT_MS) {
      late.push([start, settled])
    } else {
      longest = Math.max(longest, settled - start)
    }
    if (answer === undefined || answer instanceof Error) {
      const code = TollgateError.is(answer) ? answer.code : `${answer}`
      errors[code] = (errors[code] ?? 0) + 1
    } else {
      const { allowed, at, resetAfterMs, source } = answer
      sources[source] = (sources[source] ?? 0) + 1
      if (allowed) {
        admitted++
        const record = Buffer.alloc(RECORD_BYTES)
        record.writeDoubleLE(which, 0)
        record.writeDoubleLE(source === 'lease' ? Number(usedAt / 1_000n) : 0, 8)
        record.writeDoubleLE(at, 16)
        record.writeDoubleLE(at + resetAfterMs, 24)
        writeSync(trace, record)
      }
    }
  }
  const caller = async (which: number) => {
    while (performance.now() < end) {
      await Promise.all(Array.from({ length: CALLS_AT_ONCE }, () => call(which)))
      await sleep(PAUSE_MS)
    }
  }
  const callers = CALLERS * LIMITERS.length
  await Promise.all(Array.from({ length: callers }, (_, index) => caller(index % LIMITERS.length)))
  // Wait until the last stall has been recorded.
  await sleep(10)
  delay.stop()
  await Promise.all(limiters.map((limiter) => limiter.close()))
  await store.close()
  const net = late.map(([start, settled]) => delay.net(start, settled, TIMEOUT_MS))
  return {
    calls,
    allowed: admitted,
    longest: { net: Math.max(longest, ...net), raw: Math.max(longest, ...late.map(([a, b]) => b - a)) },
    loopDelayMs: delay.longestMs,
    errors,
    sources,
  }
}

async function main(): Promise<void> {
  if (!isMainThread) {
    const { parentPort } = await import('node:worker_threads')
    const report = await load(workerData as Leasing, async () => parentPort?.postMessage('ready'))
    parentPort?.postMessage(report)
    return
  }
  const task = JSON.parse(process.argv[2] as string) as Leasing
  const worker = new Worker(__filename, { workerData: { ...task, file: `${task.file}-worker` } })
  const ready = once(worker, 'message')
  // The worker thread may end first.
  const workerReport = ready.then(() => once(worker, 'message'))
  const report = await load(task, async () => {
    await ready
    process.send?.('ready')
    await once(process, 'message')
  })
  const [others] = (await workerReport) as [LeasingReport]
  process.send?.([report, others], () => process.disconnect())
}

main().catch((error: unknown) => {
  console.error(error)
  process.exit(1)
})
