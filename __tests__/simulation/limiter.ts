import {
  type Decision,
  type Permit,
  type Policy,
  type RateLimiterOptions,
  type Reservation,
  tiers,
} from '../../ts/index.js'
import type { Random } from '../random.js'
import type { AnyLimiter } from './any-limiter.js'
import type { Case } from './cases.js'
import type { Environment, SimulatedPolicies } from './environment.js'

/** An operation on one limiter, on every store. */
export interface Operation {
  readonly name: string
  /** For messages. */
  readonly details: unknown
  readonly key: unknown
  /** Runs the operation on the limiter of a store, by the store's index. */
  run(limiter: AnyLimiter, store: number): Promise<unknown>
  /** Receives the results of all stores, which are equal, and their time. */
  onResults?(outcomes: readonly unknown[], nowUs: number): void
}

/** A call that has taken units. */
interface ChargedCall {
  readonly key: unknown
  readonly outcomes: readonly unknown[]
  /** The time from which a refund gives nothing back. */
  readonly resetUs: number
}

/** A reservation that has not been settled. */
interface OpenReservation {
  readonly key: unknown
  readonly reservations: readonly unknown[]
}

/** The numbers of other operations that take no units: see `#other`. Most are previews. */
const WITHOUT_TAKING = [2, 2, 2, 2, 5, 6, 7, 7, 8, 9]

/** Permits that have not been released. */
interface HeldPermits {
  readonly key: unknown
  /** By store. */
  readonly permits: readonly Permit[]
}

/** A limiter of a simulation on every store, and its possible operations. */
export class SimulatedLimiter {
  readonly case: Case
  readonly prefix: string
  /** By store. */
  limiters: readonly (AnyLimiter & { close(): Promise<void> })[] = []
  /** The time until which keys may have overrides. */
  overriddenUntilUs = 0
  readonly #environment: Environment
  readonly #random: Random
  /** Whether each version is a tier, so that each call names its version. */
  readonly #isTiered: boolean
  readonly #canUpdate: boolean
  #version = 0
  #banning: Pick<RateLimiterOptions, 'ban' | 'blockFor'> = {}
  #taken: ChargedCall[] = []
  #held: OpenReservation[] = []
  #permits: HeldPermits[] = []

  constructor(environment: Environment, limited: Case, prefix: string, random: Random) {
    this.#environment = environment
    this.case = limited
    this.prefix = prefix
    this.#random = random
    this.#canUpdate = limited.onlyDeploys !== true
    this.#isTiered = this.#canUpdate && limited.versions.length > 1 && random.next() < 0.5
    this.#open()
  }

  /** The options with the tier of a call, for each tier; or an empty one. */
  get tiers(): readonly { readonly tier?: string }[] {
    return this.#isTiered ? this.case.versions.map((_, index) => ({ tier: `v${index}` })) : [{}]
  }

  /** Whether refused calls may ban keys. */
  get hasBanRule(): boolean {
    return Object.keys(this.#banning).length > 0
  }

  /** The policies' names and their key dimensions: `undefined` if keys are strings. */
  get policies(): readonly (readonly [name: string, per: string | undefined])[] {
    const policy = this.case.versions[this.#version] as object
    return 'algorithm' in policy
      ? [['default', undefined]]
      : Object.entries(policy as Record<string, { readonly per?: string }>).map(
          ([name, { per }]) => [name, per] as const,
        )
  }

  /** Closes the limiters, and opens them with other numbers, like a deploy. */
  async deploy(): Promise<void> {
    await this.close()
    this.#version = this.#random.whole(0, this.case.versions.length - 1)
    this.#taken = []
    this.#held = []
    this.#permits = []
    this.#open()
  }

  async close(): Promise<void> {
    await Promise.all(this.limiters.map((limiter) => limiter.close()))
  }

  #open(): void {
    const policies = this.#policies()
    this.#banning = this.#banningOptions()
    this.limiters = this.#environment.stores.map((store) => store.open(policies, this.prefix, this.#banning))
  }

  #banningOptions(): Pick<RateLimiterOptions, 'ban' | 'blockFor'> {
    const random = this.#random
    const duration = () => `${this.#durationMs()}ms` as const
    const kind = random.next()
    if (kind < 0.6) {
      return {}
    }
    return kind < 0.7
      ? { blockFor: duration() }
      : {
          ban: {
            after: random.whole(1, 3),
            period: duration(),
            for: [duration(), duration(), duration()].slice(random.whole(0, 2)),
            ttl: duration(),
          },
        }
  }

  /** The policies of the present version; with tiers, of all versions, beginning with it. */
  #policies(): SimulatedPolicies {
    const { versions } = this.case
    const versionOf = (tier: number) => versions[(this.#version + tier) % versions.length] as Case['versions'][number]
    const tiered = (of: (version: Case['versions'][number]) => unknown) =>
      tiers(Object.fromEntries(versions.map((_, tier) => [`v${tier}`, of(versionOf(tier)) as Policy])))
    const first = versionOf(0)
    if (!this.#isTiered) {
      return first
    }
    return 'algorithm' in first
      ? tiered((version) => version)
      : Object.fromEntries(Object.keys(first).map((name) => [name, tiered((version) => Reflect.get(version, name))]))
  }

  /** Replaces the numbers within a tick: calls before it are decided by the old ones. */
  #update(): Operation {
    this.#version = this.#random.whole(0, this.case.versions.length - 1)
    const policies = this.#policies()
    const run = async (limiter: AnyLimiter) => limiter.update(policies)
    return { name: 'update', details: { version: this.#version }, key: undefined, run }
  }

  /** The next operation. */
  operation(): Operation {
    const random = this.#random
    const kind = random.next()
    const key = random.one(this.case.keys)
    const cost = this.#cost()
    const tier = random.one(this.tiers)
    if (this.case.permits === true) {
      return this.#permitOperation(kind, key, cost, tier)
    }
    const isSync = this.#random.next() < 0.5
    const take = () =>
      this.#taking('take', key, { cost, ...tier }, async (limiter, store) => {
        const isEmbedded = this.#environment.stores[store]?.isRemote === false
        return limiter[isSync && isEmbedded ? 'takeSync' : 'take'](key, this.#costOf(cost, tier))
      })
    if (kind < 0.54) {
      return take()
    }
    if (kind < 0.55) {
      return this.#canUpdate ? this.#update() : take()
    }
    if (kind < 0.8) {
      return this.#other(key, cost, tier)
    }
    if (kind < 0.87) {
      return this.#refund() ?? take()
    }
    if (kind < 0.95 || this.case.waits !== true) {
      return this.#reserve(key, cost, tier)
    }
    return this.#taking('wait', key, { cost, ...tier }, (limiter) =>
      limiter.wait(key, { cost, maxWait: 0, onTooLong: 'resolve', ...tier }),
    )
  }

  /** A wait that is aborted, and a call after it. It runs alone in its tick. */
  abortedWait(): Operation {
    const random = this.#random
    const [key, cost] = [random.one(this.case.keys), this.#cost()]
    const maxWait = random.whole(1, this.case.horizonMs)
    const isPeek = random.next() < 0.5
    const tier = random.one(this.tiers)
    return {
      name: 'wait and leave',
      details: { cost, maxWait, isPeek, ...tier },
      key,
      run: async (limiter) => {
        const aborting = new AbortController()
        const waited = limiter.wait(key, { cost, maxWait, onTooLong: 'resolve', signal: aborting.signal, ...tier })
        const next = isPeek ? limiter.peek(key, this.#costOf(1, tier)) : limiter.take(key, this.#costOf(1, tier))
        aborting.abort()
        const outcomes = await Promise.allSettled([waited, next])
        // The slot is given back after the call has been rejected.
        await new Promise(setImmediate)
        return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason.code))
      },
    }
  }

  /** The argument for a cost; a number if there are no tiers. */
  #costOf(cost: number, tier: { readonly tier?: string }): number | object {
    return this.#isTiered ? { cost, ...tier } : cost
  }

  #cost(): number {
    const { maxCost } = this.case
    const kind = this.#random.next()
    if (kind < 0.5) {
      return 1
    }
    return kind < 0.9 ? this.#random.whole(1, Math.max(1, maxCost >> 2)) : this.#random.whole(1, maxCost + 1)
  }

  #durationMs(): number {
    const { horizonMs } = this.case
    const kind = this.#random.next()
    const max = kind < 0.5 ? horizonMs : kind < 0.9 ? 1 + (horizonMs >> 4) : 100 * horizonMs
    return this.#random.whole(1, Math.min(max, 80_000_000))
  }

  #taking(name: string, key: unknown, details: unknown, run: Operation['run']): Operation {
    return { name, key, details, run, onResults: (outcomes) => this.#keep(key, outcomes) }
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
    const { key, outcomes, resetUs } = this.#taken.splice(this.#random.whole(0, length - 1), 1)[0] as ChargedCall
    const units = this.#random.next() < 0.5 ? undefined : this.#random.whole(1, 3)
    return {
      name: 'refund',
      details: { units, of: outcomes[0] },
      key,
      run: (limiter, store) => limiter.refund(outcomes[store], units),
      onResults: ([given], nowUs) => {
        if ((given as number) > 0 && nowUs >= resetUs) {
          throw new Error(`refund: ${given} came back after the reset time of the decision`)
        }
      },
    }
  }

  #reserve(key: unknown, units: number, tier: { readonly tier?: string }): Operation {
    const random = this.#random
    const { length } = this.#held
    if (length > 0 && random.next() < 0.25) {
      // Calls on one reservation wait for each other, so it has one call in a turn.
      const held = this.#held.splice(random.whole(0, length - 1), 1)[0] as OpenReservation
      const of = (store: number) => held.reservations[store] as Reservation & { readonly allowed: true }
      const [ttl, more] = [this.#durationMs(), random.whole(1, units)]
      const onResults = () => {
        this.#held.push(held)
      }
      return random.next() < 0.4
        ? {
            name: 'renew',
            details: { ttl },
            key: held.key,
            run: (_, store) => of(store).renew(ttl),
            onResults,
          }
        : {
            name: 'extend',
            details: { units: more, ttl },
            key: held.key,
            run: (_, store) => of(store).extend(more, { ttl }),
            onResults,
          }
    }
    if (length > 0 && random.next() < 0.5) {
      const held = this.#held.splice(random.whole(0, length - 1), 1)[0] as OpenReservation
      const actual = random.whole(0, 2 * units)
      return {
        name: 'commit',
        details: { actual },
        key: held.key,
        run: (limiter, store) => {
          const reservation = held.reservations[store] as Reservation & { readonly allowed: true }
          return actual % 2 === 0 ? limiter.settle(reservation.id, actual) : reservation.commit(actual)
        },
      }
    }
    const ttl = this.#durationMs()
    return {
      name: 'reserve',
      details: { units, ttl, ...tier },
      key,
      run: (limiter) => limiter.reserve(key, units, { ttl, ...tier }),
      onResults: (outcomes) => {
        if ((outcomes[0] as Partial<Reservation>).allowed === true) {
          this.#held = [...this.#held.slice(-20), { key, reservations: outcomes }]
        }
      },
    }
  }

  /** An operation of a limiter whose calls take permits. */
  #permitOperation(kind: number, key: unknown, cost: number, tier: { readonly tier?: string }): Operation {
    const random = this.#random
    const { length } = this.#permits
    if (kind < 0.4 && length > 0) {
      const held = this.#permits.splice(random.whole(0, length - 1), 1)[0] as HeldPermits
      const run = async (_: AnyLimiter, store: number) =>
        (held.permits[store] as Extract<Permit, { readonly allowed: true }>).release()
      return { name: 'release', details: {}, key: held.key, run }
    }
    if (kind < 0.8) {
      const permits: Permit[] = []
      return {
        name: 'acquire',
        details: { cost, ...tier },
        key,
        run: async (limiter, store) => {
          const permit = (await limiter.acquire(key, { cost, ...tier })) as Permit
          permits[store] = permit
          return permit.decision
        },
        onResults: ([decision]) => {
          if ((decision as Decision).allowed) {
            this.#permits.push({ key, permits })
          }
        },
      }
    }
    if (kind < 0.82 && this.#canUpdate) {
      return this.#update()
    }
    return this.#other(key, cost, tier, random.one(WITHOUT_TAKING))
  }

  #other(key: unknown, cost: number, tier: { readonly tier?: string }, number = this.#random.whole(0, 13)): Operation {
    const random = this.#random
    const durationMs = this.#durationMs()
    switch (number) {
      case 0: {
        const keys = Array.from({ length: random.whole(1, 4) }, () => random.one(this.case.keys))
        const costs = this.#isTiered ? { cost, ...tier } : keys.map(() => this.#cost())
        return { name: 'takeMany', details: { keys, costs }, key, run: (limiter) => limiter.takeMany(keys, costs) }
      }
      case 1:
        return this.#taking('takeUpTo', key, { cost, ...tier }, (limiter) => limiter.takeUpTo(key, cost, tier))
      case 2:
      case 3:
      case 10:
      case 11:
        return {
          name: 'peek',
          details: { cost: cost - 1, ...tier },
          key,
          run: (limiter) => limiter.peek(key, this.#costOf(cost - 1, tier)),
        }
      case 4:
        return {
          name: 'penalize',
          details: { cost, ...tier },
          key,
          run: (limiter) => limiter.penalize(key, cost, tier),
        }
      case 5:
        // It also drops reservations.
        return { name: 'reset', details: {}, key, run: (limiter) => limiter.reset(key) }
      case 6:
      case 12:
        return { name: 'block', details: { durationMs }, key, run: (limiter) => limiter.block(key, `${durationMs}ms`) }
      case 7:
        return { name: 'unblock', details: {}, key, run: (limiter) => limiter.unblock(key) }
      case 8:
        return { name: 'clearOverride', details: {}, key, run: (limiter) => limiter.clearOverride(key) }
      default: {
        if (this.case.numbers.length === 0) {
          return { name: 'clearOverride', details: {}, key, run: (limiter) => limiter.clearOverride(key) }
        }
        const numbers = random.one(this.case.numbers)
        const endsUs = this.#environment.nowUs + durationMs * 1_000
        this.overriddenUntilUs = Math.max(this.overriddenUntilUs, endsUs)
        const run = (limiter: AnyLimiter) => limiter.override(key, numbers, { ttl: `${durationMs}ms`, ...tier })
        return { name: 'override', details: { numbers, durationMs, ...tier }, key, run }
      }
    }
  }
}
