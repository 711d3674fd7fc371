// A process that makes calls with `onStoreFailure` while the store is away, and reports the
// results.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Decision, type OnStoreFailure, RateLimiter, RedisStore, TollgateError } from 'tollgate'
import { LoopDelay } from '../loop-delay.js'
import { TIMEOUT_MS } from '../scene.js'
import { SHARED } from '../shared.js'

/** The task of the process. */
export interface Guarded {
  readonly url: string
  readonly ms: number
  readonly onStoreFailure: OnStoreFailure
}

/** An admitted call: its time by the deciding clock, in microseconds, and its source. */
export type Admitted = readonly [at: number, source: Decision['source']]

/** The report of the process. */
export interface GuardedReport {
  readonly calls: number
  readonly longest: { readonly net: number; readonly raw: number }
  readonly loopDelayMs: number
  readonly errors: Readonly<Record<string, number>>
  readonly admitted: Readonly<Record<'window' | 'rate', readonly Admitted[]>>
  /** The number of decisions by source. */
  readonly sources: Readonly<Record<Decision['source'], number>>
  /**
   * Distinct times of calls that the store did not decide, by this machine's clock, in
   * milliseconds.
   */
  readonly without: readonly number[]
}

/** Callers of each policy, and their pause. Without it, the event loop could not be measured. */
const CALLERS = 8
const PAUSE_MS = 10

/** A call that took longer than its deadline, possibly because of a stall. */
interface Late {
  readonly start: number
  readonly settled: number
}

async function main(): Promise<void> {
  const { url, ms, onStoreFailure } = JSON.parse(process.argv[2] as string) as Guarded
  const store = new RedisStore({ url, commandTimeout: TIMEOUT_MS })
  const names = ['window', 'rate'] as const
  const limiters = names.map((name) => new RateLimiter(SHARED[name], { store, prefix: name, onStoreFailure }))
  while (store.status().state !== 'up') {
    await sleep(10)
  }
  process.send?.('ready')
  await once(process, 'message')
  const delay = new LoopDelay()
  const admitted = { window: [] as Admitted[], rate: [] as Admitted[] }
  const sources = { store: 0, cache: 0, lease: 0, fallback: 0, none: 0 }
  const errors: Record<string, number> = {}
  const late: Late[] = []
  const without = new Set<number>()
  let [calls, longest] = [0, 0]
  delay.start()
  const end = performance.now() + ms
  const caller = async (which: 0 | 1) => {
    while (performance.now() < end) {
      calls++
      const start = performance.now()
      const told = await limiters[which]?.take('key').catch((error: unknown) => error)
      const settled = performance.now()
      if (settled - start > TIMEOUT_MS) {
        late.push({ start, settled })
      } else {
        longest = Math.max(longest, settled - start)
      }
      if (told instanceof Error) {
        const code = TollgateError.is(told) ? told.code : `${told}`
        errors[code] = (errors[code] ?? 0) + 1
        without.add(Date.now())
      } else {
        const { allowed, at, source } = told as Decision
        sources[source as keyof typeof sources]++
        if (source !== 'store') {
          without.add(Date.now())
        }
        if (allowed) {
          admitted[names[which]].push([Math.round(at * 1_000), source])
        }
      }
      await sleep(PAUSE_MS)
    }
  }
  await Promise.all(Array.from({ length: 2 * CALLERS }, (_, index) => caller((index % 2) as 0 | 1)))
  // Wait until the last stall has been recorded.
  await sleep(10)
  delay.stop()
  await store.close()
  const most = (times: readonly number[]) => times.reduce((a, b) => Math.max(a, b), longest)
  const report: GuardedReport = {
    calls,
    longest: {
      net: most(late.map(({ start, settled }) => delay.net(start, settled, TIMEOUT_MS))),
      raw: most(late.map(({ start, settled }) => settled - start)),
    },
    loopDelayMs: delay.longestMs,
    errors,
    admitted,
    sources,
    without: [...without],
  } as GuardedReport
  process.send?.(report, () => process.disconnect())
}

main().catch((error: unknown) => {
  console.error(error)
  process.exit(1)
})
