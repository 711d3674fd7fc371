import { setTimeout as sleep } from 'node:timers/promises'
import { type Decision, RateLimiter, type RedisStore, TollgateError } from 'tollgate'
import type { LoopDelay } from './loop-delay.js'
import { COUNTED, KEYS, type LimiterName, POLICIES } from './traffic.js'

/** Options of a load. */
export interface LoadOptions {
  /** Calls in flight at any time. Default: 64. */
  readonly inFlight?: number
  /** The deadline of the store's calls, in milliseconds. */
  readonly timeoutMs: number
}

/** An admitted unit: its time by the deciding clock, in microseconds, and the end of its window. */
export interface Unit {
  readonly at: number
  readonly windowEnd: number
  /** The time of the answer by this machine's clock, in microseconds. */
  readonly heard: number
}

/** The results of all calls, as plain data that a process can send to another. */
export interface LoadReport {
  readonly calls: number
  /**
   * The longest time that a call was pending, in milliseconds: without stalls of the event loop,
   * and raw.
   */
  readonly longest: { readonly net: number; readonly raw: number }
  /** The number of failed calls by code. */
  readonly errors: Readonly<Record<string, number>>
  /** The number of failed calls that may have been charged. */
  readonly unknown: number
  /** The admitted units by limiter and key, in the order of the answers. */
  readonly admitted: Readonly<Record<'window' | 'rate', Readonly<Record<string, readonly Unit[]>>>>
  /**
   * For the limiter that is never full: units granted to callers, and units that may have been
   * charged.
   */
  readonly counted: { readonly told: number; readonly unknown: number }
  /** Calls that never settled. */
  readonly lost: number
}

/** The limiters take turns. */
const TURNS: readonly LimiterName[] = ['window', 'rate', 'count']

/** The pause between two calls of a caller. Without it, the event loop could not be measured. */
const PAUSE_MS = 1

/** The pause of a caller after a failure, because some failures are immediate. */
const PAUSE_AFTER_FAILURE_MS = 5

/** The most further reads of the count, because a busy server may miss the deadline of a read. */
const READ_RETRIES = 4

/** A call that settled late, or has not settled. */
interface Late {
  readonly start: number
  readonly settled: number
}

/**
 * Callers that take units of a few keys under several policies, one after the other, until stopped.
 */
export class Load {
  readonly #limiters: Readonly<Record<LimiterName, RateLimiter>>
  readonly #delay: LoopDelay
  readonly #timeoutMs: number
  readonly #inFlight: number
  #callers: Promise<unknown>[] = []
  #running = false
  #calls = 0
  #allowed = 0
  #settled = 0
  #errors = new Map<string, number>()
  #unknown = 0
  #longestInTime = 0
  readonly #late: Late[] = []
  readonly #admitted = { window: emptyTraces(), rate: emptyTraces() }
  readonly #counted = { told: 0, unknown: 0 }
  /** The last failure and the first success since a moment, by `performance.now()`. */
  #since = { moment: Number.POSITIVE_INFINITY, lastFailure: 0, firstSuccess: 0 }
  #waiters: { readonly wants: (name: LimiterName, decision: Decision) => boolean; readonly done: () => void }[] = []

  constructor(store: RedisStore, delay: LoopDelay, { inFlight = 64, timeoutMs }: LoadOptions) {
    const limiter = (name: LimiterName): RateLimiter => new RateLimiter(POLICIES[name], { store, prefix: name })
    this.#limiters = { window: limiter('window'), rate: limiter('rate'), count: limiter('count') }
    this.#delay = delay
    this.#timeoutMs = timeoutMs
    this.#inFlight = inFlight
  }

  get calls(): number {
    return this.#calls
  }

  /** The number of admitted calls. */
  get admitted(): number {
    return this.#allowed
  }

  start(): void {
    this.#running = true
    this.#callers = Array.from({ length: this.#inFlight }, () => this.#caller())
  }

  /** Ends the load, and waits until the calls in flight have settled, or never will. */
  async stop(): Promise<void> {
    this.#running = false
    // A call that has not settled after this time never will.
    const patience = sleep(2 * this.#timeoutMs + 5_000, undefined, { ref: false })
    await Promise.race([Promise.all(this.#callers), patience])
    // Wait until the last stall has been recorded.
    await sleep(10)
  }

  /** Starts the time for {@link normalMs}. */
  mark(): void {
    this.#since = { moment: performance.now(), lastFailure: 0, firstSuccess: 0 }
  }

  /**
   * Milliseconds from the mark until no call failed any more, without stalls of the event loop.
   * `undefined` if no call has succeeded since.
   */
  get normalMs(): number | undefined {
    const { moment, lastFailure, firstSuccess } = this.#since
    return firstSuccess === 0 ? undefined : this.#delay.ofWhich(moment, Math.max(lastFailure, firstSuccess))
  }

  /** Milliseconds until a call of a limiter is admitted. */
  async untilAdmitted(name: LimiterName): Promise<number> {
    const start = performance.now()
    await new Promise<void>((done) => {
      this.#waiters.push({ wants: (limiter, { allowed }) => limiter === name && allowed, done })
    })
    return performance.now() - start
  }

  /** The units that the store has charged to the limiter that is never full. */
  async charged(): Promise<number> {
    for (let more = READ_RETRIES; ; more--) {
      try {
        const { limit, remaining } = await this.#limiters.count.peek(COUNTED, 0)
        return limit - remaining
      } catch (error) {
        if (more === 0) {
          throw error
        }
        await sleep(this.#timeoutMs)
      }
    }
  }

  /**
   * Units of the limiter that is never full that were granted to callers, and that the store has
   * lost.
   */
  async forgotten(): Promise<number> {
    return Math.max(0, this.#counted.told - (await this.charged()))
  }

  /** Makes one more call. Returns its error message, or an empty string. */
  probe(): Promise<string> {
    return this.#limiters.count.take('probe').then(
      () => '',
      (error: Error) => error.message,
    )
  }

  /** The seconds that this process's clock is ahead of the deciding clock. */
  async skew(): Promise<number> {
    const { at } = await this.#limiters.count.peek(COUNTED, 0)
    return (Date.now() - at) / 1_000
  }

  report(): LoadReport {
    const net = this.#late.map(({ start, settled }) => this.#delay.net(start, settled, this.#timeoutMs))
    const raw = this.#late.map(({ start, settled }) => settled - start)
    return {
      calls: this.#calls,
      longest: { net: most(this.#longestInTime, net), raw: most(this.#longestInTime, raw) },
      errors: Object.fromEntries(this.#errors),
      unknown: this.#unknown,
      admitted: this.#admitted,
      counted: { ...this.#counted },
      lost: this.#calls - this.#settled,
    }
  }

  async #caller(): Promise<void> {
    while (this.#running) {
      const isFine = await this.#call()
      await sleep(isFine ? PAUSE_MS : PAUSE_AFTER_FAILURE_MS)
    }
  }

  /** Makes one call, and records its result. */
  async #call(): Promise<boolean> {
    const number = this.#calls++
    const name = TURNS[number % TURNS.length] as LimiterName
    const turn = Math.floor(number / TURNS.length)
    const key = turn % 2 === 0 ? KEYS[0] : KEYS[(turn >> 1) % KEYS.length]
    const start = performance.now()
    try {
      const decision = await this.#limiters[name].take(name === 'count' ? COUNTED : (key as string))
      this.#settle(start)
      if (this.#since.firstSuccess === 0 && start >= this.#since.moment) {
        this.#since.firstSuccess = performance.now()
      }
      this.#hear(name, key as string, decision)
      return true
    } catch (error) {
      this.#settle(start)
      this.#fail(name, error)
      return false
    }
  }

  #settle(start: number): void {
    this.#settled++
    const settled = performance.now()
    if (settled - start > this.#timeoutMs) {
      this.#late.push({ start, settled })
    } else {
      this.#longestInTime = Math.max(this.#longestInTime, settled - start)
    }
  }

  #hear(name: LimiterName, key: string, decision: Decision): void {
    this.#allowed += decision.allowed ? 1 : 0
    if (name === 'count') {
      this.#counted.told += decision.allowed ? 1 : 0
    } else if (decision.allowed) {
      // A window ends on a whole millisecond, and its remaining time is rounded up to one.
      const windowEnd = (Math.floor(decision.at) + decision.resetAfterMs) * 1_000
      this.#admitted[name][key]?.push({ at: Math.round(decision.at * 1_000), windowEnd, heard: Date.now() * 1_000 })
    }
    if (this.#waiters.length > 0) {
      const heard = this.#waiters.filter(({ wants }) => wants(name, decision))
      this.#waiters = this.#waiters.filter((waiter) => !heard.includes(waiter))
      for (const { done } of heard) {
        done()
      }
    }
  }

  #fail(name: LimiterName, error: unknown): void {
    if (!TollgateError.is(error)) {
      throw error
    }
    this.#since.lastFailure = performance.now()
    this.#errors.set(error.code, (this.#errors.get(error.code) ?? 0) + 1)
    if (error.charged === 'unknown') {
      this.#unknown++
      this.#counted.unknown += name === 'count' ? 1 : 0
    }
  }
}

function emptyTraces(): Record<string, Unit[]> {
  return Object.fromEntries(KEYS.map((key) => [key, []]))
}

function most(least: number, numbers: readonly number[]): number {
  return numbers.reduce((a, b) => Math.max(a, b), least)
}
