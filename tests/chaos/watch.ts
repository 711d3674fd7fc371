import { setTimeout as sleep } from 'node:timers/promises'
import { RateLimiter, type RedisStore, TollgateError } from 'tollgate'
import type { LoopDelay } from './loop-delay.js'
import { POLICIES } from './traffic.js'

/** The pause between two calls on a key, in milliseconds. */
const PAUSE_MS = 10

/** The result of one call. Times are by `performance.now()`. */
interface Seen {
  readonly key: string
  readonly start: number
  readonly end: number
  readonly code: string | undefined
}

/** The results of the calls on some keys during a span. */
export interface Sight {
  readonly calls: number
  /** The number of failed calls by code. */
  readonly errors: Readonly<Record<string, number>>
  readonly failed: number
  /**
   * The median and the longest duration of a call, in milliseconds, without stalls of the event
   * loop.
   */
  readonly medianMs: number
  readonly longestMs: number
}

/** One caller for each of some keys, in addition to the load. Reports results by key. */
export class Watch {
  readonly #delay: LoopDelay
  readonly #limiter: RateLimiter
  readonly #seen: Seen[] = []
  readonly #callers: readonly Promise<void>[]
  #running = true

  constructor(store: RedisStore, delay: LoopDelay, keys: readonly string[]) {
    this.#delay = delay
    this.#limiter = new RateLimiter(POLICIES.count, { store, prefix: 'watch' })
    this.#callers = keys.map((key) => this.#caller(key))
  }

  /** Stops the callers. */
  async stop(): Promise<void> {
    this.#running = false
    await Promise.all(this.#callers)
    await this.#limiter.close()
  }

  /** The results of the calls on these keys that started within a span. */
  sight(keys: readonly string[], from: number, to: number): Sight {
    const seen = this.#seen.filter(({ key, start }) => keys.includes(key) && start >= from && start < to)
    const times = seen.map(({ start, end }) => this.#delay.ofWhich(start, end)).sort((a, b) => a - b)
    const errors: Record<string, number> = {}
    for (const { code } of seen) {
      if (code !== undefined) {
        errors[code] = (errors[code] ?? 0) + 1
      }
    }
    const failed = Object.values(errors).reduce((sum, count) => sum + count, 0)
    const medianMs = times[Math.floor(times.length / 2)] ?? Number.NaN
    return { calls: seen.length, errors, failed, medianMs, longestMs: times.at(-1) ?? Number.NaN }
  }

  async #caller(key: string): Promise<void> {
    while (this.#running) {
      const start = performance.now()
      const code = await this.#limiter.take(key).then(
        () => undefined,
        (error: unknown) => (TollgateError.is(error) ? error.code : `${error}`),
      )
      this.#seen.push({ key, start, end: performance.now(), code })
      await sleep(PAUSE_MS)
    }
  }
}
