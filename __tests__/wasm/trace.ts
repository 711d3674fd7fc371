/** Random traces: calls on limiters, and their times. Equal seeds give equal traces. */
import { isDeepStrictEqual } from 'node:util'
import { type Decision, type Reservation, TollgateError } from '../../ts/index.js'

/** The operations of a limiter of any policies, as programs without types call them. */
export interface AnyLimiter {
  readonly take: Method
  readonly takeSync: (...args: unknown[]) => unknown
  readonly takeMany: Method
  readonly takeUpTo: Method
  readonly peek: Method
  readonly penalize: Method
  readonly refund: Method
  readonly reset: Method
  readonly block: Method
  readonly unblock: Method
  readonly override: Method
  readonly clearOverride: Method
  readonly reserve: Method
  readonly settle: Method
  readonly wait: Method
  readonly acquire: Method
  readonly update: (policies: unknown) => void
}

type Method = (...args: unknown[]) => Promise<unknown>

/** Numbers from 0 up to below 1 that are the same for equal seeds (mulberry32). */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number from `min` to `max`. */
  whole(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  one<T>(of: readonly T[]): T {
    return of[this.whole(0, of.length - 1)] as T
  }
}

/** The possible calls under some policies. */
export interface TraceOptions {
  /** The keys, as calls name them. */
  readonly keys: readonly unknown[]
  /** The largest cost that ever fits. */
  readonly maxCost: number
  /** Overrides for a key. */
  readonly numbers: readonly unknown[]
  /** The approximate time until a used key is fresh again, in milliseconds. */
  readonly horizonMs: number
}

/**
 * A clock for both, in whole microseconds. It advances a little or far, and goes back now and then
 * if allowed.
 */
export class TracedClock {
  #us = Date.UTC(2026, 2, 28) * 1_000
  readonly #goesBack: boolean

  constructor({ goesBack }: { readonly goesBack: boolean } = { goesBack: true }) {
    this.#goesBack = goesBack
  }

  readonly read = (): number => this.#us / 1_000

  step(random: Random, horizonMs: number): void {
    const kind = random.next()
    if (kind < 0.35) {
      this.#us += random.whole(0, horizonMs * 20)
    } else if (kind < 0.5) {
      this.#us += random.whole(0, horizonMs * 1_000)
    } else if (kind < 0.505) {
      this.#us += random.whole(0, horizonMs * 5_000)
    } else if (kind < 0.51 && this.#goesBack) {
      this.#us -= random.whole(0, horizonMs * 2_000)
    }
  }
}

/** The outcome of a call: its value, or the description of its failure. */
async function outcomeOf(call: () => unknown): Promise<unknown> {
  try {
    return await call()
  } catch (error) {
    if (!TollgateError.is(error)) {
      throw error
    }
    const { code, message, charged, results, decision } = error
    return { code, message, charged, results, decision }
  }
}

/** Runs the same calls on two limiters, step by step, and throws if their results differ. */
export class TracedPair {
  readonly #limiters: readonly [AnyLimiter, AnyLimiter]
  readonly #options: TraceOptions
  readonly #random: Random
  readonly #isRemote: boolean
  /** Decisions and reservations of both that may still be refunded or settled. */
  #taken: (readonly [unknown, unknown])[] = []
  #held: (readonly [Reservation, Reservation])[] = []
  /** The counts of each step's results. */
  readonly seen = new Map<string, number>()

  /**
   * @param isRemote - Whether one of them is over Redis and has no synchronous calls.
   */
  constructor(
    limiters: readonly [AnyLimiter, AnyLimiter],
    options: TraceOptions,
    random: Random,
    { isRemote }: { readonly isRemote: boolean } = { isRemote: false },
  ) {
    this.#isRemote = isRemote
    this.#limiters = limiters
    this.#options = options
    this.#random = random
  }

  async step(): Promise<void> {
    const kind = this.#random.next()
    const key = this.#random.one(this.#options.keys)
    const cost = this.#cost()
    if (kind < 0.4 && !this.#isRemote) {
      this.#keep(await this.#both('takeSync', (limiter) => limiter.takeSync(key, cost)))
    } else if (kind < 0.55) {
      this.#keep(await this.#both('take', (limiter) => limiter.take(key, cost)))
    } else if (kind < 0.75) {
      await this.#other(key, cost)
    } else if (kind < 0.85) {
      await this.#giveBack()
    } else if (kind < 0.93) {
      await this.#reserve(key, cost)
    } else {
      await this.#wait(key, cost)
    }
  }

  /** Mostly small; now and then the largest cost that fits, or more. */
  #cost(): number {
    const { maxCost } = this.#options
    return this.#random.next() < 0.9
      ? this.#random.whole(1, Math.max(1, maxCost >> 2))
      : this.#random.whole(1, maxCost + 1)
  }

  async #other(key: unknown, cost: number): Promise<void> {
    const { keys, numbers, horizonMs } = this.#options
    const lasting = this.#random.whole(1, horizonMs)
    switch (this.#random.whole(0, 8)) {
      case 0: {
        const several = keys.map(() => this.#random.one(keys))
        const costs = several.map(() => this.#cost())
        return void (await this.#both('takeMany', (limiter) => limiter.takeMany(several, costs)))
      }
      case 1:
        return this.#keep(await this.#both('takeUpTo', (limiter) => limiter.takeUpTo(key, cost)))
      case 2:
      case 3:
        return void (await this.#both('peek', (limiter) => limiter.peek(key, cost - 1)))
      case 4:
        return void (await this.#both('penalize', (limiter) => limiter.penalize(key, cost)))
      case 5:
        if (this.#isRemote) {
          // Over Redis it also deletes reservations, which the embedded store does not track.
          this.#held = []
        }
        return void (await this.#both('reset', (limiter) => limiter.reset(key)))
      case 6:
        return void (await this.#both('block', (limiter) => limiter.block(key, lasting)))
      case 7:
        return void (await this.#both('unblock', (limiter) => limiter.unblock(key)))
      default: {
        const own = this.#random.one(numbers)
        if (own === undefined || this.#random.next() < 0.4) {
          return void (await this.#both('clearOverride', (limiter) => limiter.clearOverride(key)))
        }
        return void (await this.#both('override', (limiter) => limiter.override(key, own, { ttl: lasting })))
      }
    }
  }

  async #giveBack(): Promise<void> {
    const { length } = this.#taken
    const taken = length === 0 ? undefined : this.#taken.splice(this.#random.whole(0, length - 1), 1)[0]
    const units = this.#random.next() < 0.5 ? undefined : this.#random.whole(1, 3)
    if (taken !== undefined) {
      await this.#both('refund', (limiter, which) => limiter.refund(taken[which], units))
    }
  }

  async #reserve(key: unknown, units: number): Promise<void> {
    const actual = this.#random.whole(0, 2 * units)
    const { length } = this.#held
    if (length > 0 && this.#random.next() < 0.5) {
      const held = this.#held.splice(this.#random.whole(0, length - 1), 1)[0] as readonly [Reservation, Reservation]
      await this.#both('commit', (_, which) => {
        const reservation = held[which]
        return reservation.allowed ? (actual === 0 ? reservation.cancel() : reservation.commit(actual)) : undefined
      })
      return
    }
    const expiresIn = this.#random.whole(1, this.#options.horizonMs)
    const reservations = await this.#both('reserve', (limiter) => limiter.reserve(key, units, { expiresIn }))
    if (reservations.every((reservation) => (reservation as Reservation).allowed)) {
      this.#held.push(reservations as [Reservation, Reservation])
    }
  }

  /** Waits for a slot that is now, or aborts the wait. */
  async #wait(key: unknown, cost: number): Promise<void> {
    if (this.#random.next() < 0.5) {
      this.#keep(await this.#both('wait', (limiter) => limiter.wait(key, { cost, maxWaitMs: 0, onTooLong: 'resolve' })))
      return
    }
    const maxWaitMs = this.#random.whole(1, this.#options.horizonMs)
    const isLeft = this.#random.next() < 0.5
    await this.#both('wait and leave', async (limiter) => {
      const leaving = new AbortController()
      const waited = limiter.wait(key, { cost, maxWaitMs, signal: leaving.signal })
      const next = isLeft ? limiter.peek(key, 1) : limiter.take(key, 1)
      leaving.abort()
      const outcomes = [await outcomeOf(() => waited), await outcomeOf(() => next)]
      // The slot is given back after the call has been rejected.
      await new Promise(setImmediate)
      return outcomes
    })
  }

  #keep(outcomes: readonly [unknown, unknown]): void {
    if ((outcomes[0] as Partial<Decision>).allowed === true) {
      this.#taken = [...this.#taken.slice(-20), outcomes]
    }
  }

  /** The result of both. */
  async #both(
    name: string,
    call: (limiter: AnyLimiter, which: 0 | 1) => unknown,
  ): Promise<readonly [unknown, unknown]> {
    const outcomes = [
      await outcomeOf(() => call(this.#limiters[0], 0)),
      await outcomeOf(() => call(this.#limiters[1], 1)),
    ] as const
    if (!isDeepStrictEqual(plain(outcomes[0]), plain(outcomes[1]))) {
      throw new Error(`${name}: ${JSON.stringify(outcomes[0])} is not ${JSON.stringify(outcomes[1])}`)
    }
    const { code, status } = (outcomes[0] ?? {}) as { code?: string; status?: string }
    const result = `${name} ${code ?? status ?? ''}`.trim()
    this.seen.set(result, (this.seen.get(result) ?? 0) + 1)
    return outcomes
  }
}

/** A value without a reservation's methods. */
function plain(outcome: unknown): unknown {
  return typeof outcome === 'object' && outcome !== null && 'commit' in outcome
    ? { ...outcome, id: undefined, commit: undefined, cancel: undefined, extend: undefined, renew: undefined }
    : outcome
}
