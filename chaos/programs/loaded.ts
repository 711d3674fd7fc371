// A process that runs a load for a while, and reports the results. Its clock may be wrong.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisStore } from 'tollgate'
import { Load, type LoadReport } from '../load.js'
import { LoopDelay } from '../loop-delay.js'
import { LONG_TIMEOUT_MS } from '../scene.js'

/** The report of the process. */
export interface Told {
  readonly load: LoadReport
  readonly loopDelayMs: number
  /** Samples of the seconds that its clock was ahead of the server's. */
  readonly skews: readonly number[]
}

async function main(): Promise<void> {
  const { url, ms } = JSON.parse(process.argv[2] as string) as { url: string; ms: number }
  const store = new RedisStore({ url, commandTimeout: LONG_TIMEOUT_MS })
  const delay = new LoopDelay()
  const load = new Load(store, delay, { timeoutMs: LONG_TIMEOUT_MS, inFlight: 16 })
  await load.charged()
  process.send?.('ready')
  await once(process, 'message')
  delay.start()
  load.start()
  const skews: number[] = []
  const end = performance.now() + ms
  while (performance.now() < end) {
    await sleep(ms / 16)
    skews.push(await load.skew())
  }
  await load.stop()
  delay.stop()
  await store.close()
  const told: Told = { load: load.report(), loopDelayMs: delay.longestMs, skews }
  process.send?.(told, () => process.disconnect())
}

main().catch((error: unknown) => {
  console.error(error)
  process.exit(1)
})
