import { setTimeout as sleep } from 'node:timers/promises'
import { type Decision, RateLimiter, type RedisStore, TollgateError } from 'tollgate'
import type { LoopDelay } from './loop-delay.js'
import { COUNTED, KEYS, type LimiterName, POLICIES } from './traffic.js'

/** How a load is made. */
export interface LoadOptions {
  /** Calls under way at any time. Default: 64. */
  readonly inFlight?: number
  /** What the store's calls are given, in milliseconds. */
  readonly timeoutMs: number
}

/** One unit that was admitted: when, in microseconds of the deciding clock, and until when it counts in a window. */
export interface Unit {
  readonly at: number
  readonly windowEnd: number
  /** When it was told, by this machine's clock, in microseconds. */
  readonly heard: number
}

/** What became of all calls: plain data, so that a process can send it to another. */
export interface LoadReport {
  readonly calls: number
  /** The longest that a call was pending, in milliseconds: less what the event loop stood still, and as it was. */
  readonly longest: { readonly net: number; readonly raw: number }
  /** How many calls have failed, by code. */
  readonly errors: Readonly<Record<string, number>>
  /** How many of those may have been charged. */
  readonly unknown: number
  /** What was admitted, by limiter and key, in the order in which it was told. */
  readonly admitted: Readonly<Record<'window' | 'rate', Readonly<Record<string, readonly Unit[]>>>>
  /** Of the limiter that is never full: the units that callers were told of, and those that may have been charged. */
  readonly counted: { readonly told: number; readonly unknown: number }
  /** Calls that never settled. */
  readonly lost: number
}

/** The limiters take turns. */
const TURNS: readonly LimiterName[] = ['window', 'rate', 'count']

/** Between two calls of a caller: who never pauses has no event loop to measure. */
const PAUSE_MS = 1

/** After a failure a caller waits: some failures come at once. */
const PAUSE_AFTER_FAILURE_MS = 5

/** A call that settled late, or is still to. */
interface Late {
  readonly start: number
  readonly settled: number
}

/** Callers that take units of a few keys under several policies, one after the other, until they are stopped. */
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
  /** When calls last failed and first succeeded since a moment, by `performance.now()`. */
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

  /** How many calls have been admitted. */
  get admitted(): number {
    return this.#allowed
  }

  start(): void {
    this.#running = true
    this.#callers = Array.from({ length: this.#inFlight }, () => this.#caller())
  }

  /** Ends the load, and waits until the calls under way have settled, or will not. */
  async stop(): Promise<void> {
    this.#running = false
    // Whoever has not settled by now never will.
    const patience = sleep(2 * this.#timeoutMs + 5_000, undefined, { ref: false })
    await Promise.race([Promise.all(this.#callers), patience])
    // So that the last stall has been noticed.
    await sleep(10)
  }

  /** From now on {@link normalMs} counts. */
  mark(): void {
    this.#since = { moment: performance.now(), lastFailure: 0, firstSuccess: 0 }
  }

  /**
   * Milliseconds from the mark until no call failed any more, less what the event loop stood still; none if no call
   * has succeeded since.
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

  /** How many units the store has charged to the limiter that is never full. */
  async charged(): Promise<number> {
    const { limit, remaining } = await this.#limiters.count.peek(COUNTED, 0)
    return limit - remaining
  }

  /** How many units of the limiter that is never full callers were told that they have, and the store has forgotten. */
  async forgotten(): Promise<number> {
    return Math.max(0, this.#counted.told - (await this.charged()))
  }

  /** What one call more is told if it fails; else nothing. */
  probe(): Promise<string> {
    return this.#limiters.count.take('probe').then(
      () => '',
      (error: Error) => error.message,
    )
  }

  /** How many seconds this process's clock is ahead of the deciding one. */
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

  /** Makes one call, and notes what becomes of it. */
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
      // A window ends on a whole millisecond, and its rest is told in whole ones, rounded up.
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
