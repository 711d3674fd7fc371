import type { Decision, Reservation } from '../../ts/index.js'
import type { AnyLimiter, Random } from '../wasm/trace.js'
import type { Case } from './cases.js'
import type { World } from './world.js'

/** What is asked of one limiter on every store. */
export interface Operation {
  readonly name: string
  /** For messages. */
  readonly details: unknown
  readonly key: unknown
  /** Asks the limiter of a store, by the number of the store. */
  ask(limiter: AnyLimiter, store: number): Promise<unknown>
  /** Takes what all stores have answered, which is the same; and when. */
  answered?(outcomes: readonly unknown[], nowUs: number): void
}

/** A call that has taken units. */
interface Taken {
  readonly key: unknown
  readonly outcomes: readonly unknown[]
  /** When nothing of it comes back any more. */
  readonly resetUs: number
}

/** A reservation that has not been settled. */
interface Held {
  readonly key: unknown
  readonly reservations: readonly unknown[]
}

/** A limiter of a simulation, on every store, and what can be asked of it. */
export class Simulated {
  readonly case: Case
  readonly prefix: string
  /** By store. */
  limiters: readonly (AnyLimiter & { close(): Promise<void> })[] = []
  /** Until when keys may have numbers of their own. */
  overriddenUntilUs = 0
  readonly #world: World
  readonly #random: Random
  #version = 0
  #taken: Taken[] = []
  #resets = 0
  #held: Held[] = []

  constructor(world: World, limited: Case, prefix: string, random: Random) {
    this.#world = world
    this.case = limited
    this.prefix = prefix
    this.#random = random
    this.#open()
  }

  /** The policies' names, and what each counts by: `undefined` where keys are texts. */
  get policies(): readonly (readonly [name: string, per: string | undefined])[] {
    const policy = this.case.versions[this.#version] as object
    return 'algorithm' in policy
      ? [['default', undefined]]
      : Object.entries(policy as Record<string, { readonly per?: string }>).map(
          ([name, { per }]) => [name, per] as const,
        )
  }

  /** Closes the limiters, and opens them with other numbers: what a deploy does. */
  async deploy(): Promise<void> {
    await this.close()
    this.#version = this.#random.whole(0, this.case.versions.length - 1)
    this.#taken = []
    this.#held = []
    this.#open()
  }

  async close(): Promise<void> {
    await Promise.all(this.limiters.map((limiter) => limiter.close()))
  }

  #open(): void {
    const policy = this.case.versions[this.#version] as Case['versions'][number]
    this.limiters = this.#world.engines.map((engine) => engine.open(policy, this.prefix))
  }

  /** What is asked next. */
  operation(): Operation {
    const random = this.#random
    const kind = random.next()
    const key = random.one(this.case.keys)
    const cost = this.#cost()
    if (kind < 0.55) {
      return this.#taking('take', key, { cost }, (limiter) => limiter.take(key, cost))
    }
    if (kind < 0.8) {
      return this.#other(key, cost)
    }
    if (kind < 0.87) {
      return this.#refund() ?? this.#taking('take', key, { cost }, (limiter) => limiter.take(key, cost))
    }
    if (kind < 0.95 || this.case.waits !== true) {
      return this.#reserve(key, cost)
    }
    return this.#taking('wait', key, { cost }, (limiter) =>
      limiter.wait(key, { cost, maxWaitMs: 0, onTooLong: 'resolve' }),
    )
  }

  /** A call that waits for a slot that nobody then wants, and one behind it. It is asked by itself. */
  waitAndLeave(): Operation {
    const random = this.#random
    const [key, cost] = [random.one(this.case.keys), this.#cost()]
    const maxWaitMs = random.whole(1, this.case.horizonMs)
    const isLeft = random.next() < 0.5
    return {
      name: 'wait and leave',
      details: { cost, maxWaitMs, isLeft },
      key,
      ask: async (limiter) => {
        const leaving = new AbortController()
        const waited = limiter.wait(key, { cost, maxWaitMs, onTooLong: 'resolve', signal: leaving.signal })
        const next = isLeft ? limiter.peek(key, 1) : limiter.take(key, 1)
        leaving.abort()
        const outcomes = await Promise.allSettled([waited, next])
        // The slot is given back once the call has been rejected.
        await new Promise(setImmediate)
        return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason.code))
      },
    }
  }

  #cost(): number {
    const { most } = this.case
    const kind = this.#random.next()
    if (kind < 0.5) {
      return 1
    }
    return kind < 0.9 ? this.#random.whole(1, Math.max(1, most >> 2)) : this.#random.whole(1, most + 1)
  }

  #lasting(): number {
    const { horizonMs } = this.case
    const kind = this.#random.next()
    const most = kind < 0.5 ? horizonMs : kind < 0.9 ? 1 + (horizonMs >> 4) : 100 * horizonMs
    return this.#random.whole(1, Math.min(most, 80_000_000))
  }

  #taking(name: string, key: unknown, details: unknown, ask: Operation['ask']): Operation {
    return { name, key, details, ask, answered: (outcomes) => this.#keep(key, outcomes) }
  }

  #keep(key: unknown, outcomes: readonly unknown[]): void {
    const { allowed, at, resetAfterMs } = outcomes[0] as Partial<Decision>
    if (allowed === true) {
      const resetUs = Math.round((at as number) * 1_000) + (resetAfterMs as number) * 1_000
      this.#taken = [...this.#taken.slice(-30), { key, outcomes, resetUs }]
    }
  }

  #refund(): Operation | undefined {
    const { length } = this.#taken
    if (length === 0) {
      return undefined
    }
    const { key, outcomes, resetUs } = this.#taken.splice(this.#random.whole(0, length - 1), 1)[0] as Taken
    const units = this.#random.next() < 0.5 ? undefined : this.#random.whole(1, 3)
    return {
      name: 'refund',
      details: { units, of: outcomes[0] },
      key,
      ask: (limiter, store) => limiter.refund(outcomes[store], units),
      answered: ([given], nowUs) => {
        if ((given as number) > 0 && nowUs >= resetUs) {
          throw new Error(`refund: ${given} came back after the reset time of the decision`)
        }
      },
    }
  }

  #reserve(key: unknown, units: number): Operation {
    const random = this.#random
    const { length } = this.#held
    if (length > 0 && random.next() < 0.5) {
      const held = this.#held.splice(random.whole(0, length - 1), 1)[0] as Held
      const actual = random.whole(0, 2 * units)
      return {
        name: 'commit',
        details: { actual },
        key: held.key,
        ask: (_, store) => {
          const reservation = held.reservations[store] as Reservation & { readonly allowed: true }
          return actual === 0 ? reservation.cancel() : reservation.commit(actual)
        },
      }
    }
    const [expiresIn, resets] = [this.#lasting(), this.#resets]
    return {
      name: 'reserve',
      details: { units, expiresIn },
      key,
      ask: (limiter) => limiter.reserve(key, units, { expiresIn }),
      answered: (outcomes) => {
        if ((outcomes[0] as Partial<Reservation>).allowed === true && resets === this.#resets) {
          this.#held = [...this.#held.slice(-20), { key, reservations: outcomes }]
        }
      },
    }
  }

  #other(key: unknown, cost: number): Operation {
    const random = this.#random
    const lasting = this.#lasting()
    switch (random.whole(0, 13)) {
      case 0: {
        const keys = Array.from({ length: random.whole(1, 4) }, () => random.one(this.case.keys))
        const costs = keys.map(() => this.#cost())
        return { name: 'takeMany', details: { keys, costs }, key, ask: (limiter) => limiter.takeMany(keys, costs) }
      }
      case 1:
        return this.#taking('takeUpTo', key, { cost }, (limiter) => limiter.takeUpTo(key, cost))
      case 2:
      case 3:
      case 10:
      case 11:
        return { name: 'peek', details: { cost: cost - 1 }, key, ask: (limiter) => limiter.peek(key, cost - 1) }
      case 4:
        return { name: 'penalize', details: { cost }, key, ask: (limiter) => limiter.penalize(key, cost) }
      case 5:
        // Over Redis it forgets reservations, of which the embedded store keeps no record.
        this.#resets++
        this.#held = []
        return { name: 'reset', details: {}, key, ask: (limiter) => limiter.reset(key) }
      case 6:
      case 12:
        return { name: 'block', details: { lasting }, key, ask: (limiter) => limiter.block(key, `${lasting}ms`) }
      case 7:
        return { name: 'unblock', details: {}, key, ask: (limiter) => limiter.unblock(key) }
      case 8:
        return { name: 'clearOverride', details: {}, key, ask: (limiter) => limiter.clearOverride(key) }
      default: {
        if (this.case.numbers.length === 0) {
          return { name: 'clearOverride', details: {}, key, ask: (limiter) => limiter.clearOverride(key) }
        }
        const numbers = random.one(this.case.numbers)
        const endsUs = this.#world.nowUs + lasting * 1_000
        this.overriddenUntilUs = Math.max(this.overriddenUntilUs, endsUs)
        const ask = (limiter: AnyLimiter) => limiter.override(key, numbers, { ttl: `${lasting}ms` })
        return { name: 'override', details: { numbers, lasting }, key, ask }
      }
    }
  }
}
