import { clockOf } from '../../input/clock.js'
import { nameOf, optionsOf, translated, wholeNumber } from '../../input/options.js'
import type { TimerClock } from '../../platform/timer-clock.js'
import { fakeableTime, timeOf, type WaitingTime } from '../../platform/waiting-time.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { compilePolicySet } from '../compile-policies.js'
import type { Engine, EngineStore } from '../engine.js'
import { Store } from '../limiter-backend.js'
import { OpenPrefixes } from '../open-prefixes.js'
import { warnOfOtherNumbers } from '../other-numbers.js'
import { MemoryBackend } from './memory-backend.js'

/**
 * The options of a {@link MemoryStore}.
 *
 * @example
 * const options: MemoryStoreOptions = { maxKeys: 100_000, name: 'shared' }
 * const store = new MemoryStore(options)
 */
export interface MemoryStoreOptions {
  /**
   * The most keys held separately, over all limiters on the store. Default: 1,000,000. If all are in use, new
   * keys share 1,024 overflow counts per limiter.
   */
  readonly maxKeys?: number
  /**
   * The deciding clock, for tests: a `TestClock` of `tollgate/testing`; or a function that returns
   * epoch milliseconds, as `Date.now` does. `wait`, permits and reservations follow it. Default: the system clock.
   */
  readonly clock?: TimerClock | (() => number)
  /** Shares the store with all threads that open the same name: up to 32 letters, digits, `_`, `.` and `-`. */
  readonly name?: string
}

const DEFAULT_MAX_KEYS = 1_000_000

/** More keys than a process can hold: 2^32. */
const MAX_KEYS = 2 ** 32

/** The prefix of limiters without one. */
const DEFAULT_PREFIX = 'default'

/** The open prefixes of stores with a name, by engine: on one thread, stores with one name are one store. */
const namedPrefixes = new WeakMap<Engine, Map<string, OpenPrefixes>>()

function prefixesOf(engine: Engine, name: string | undefined): OpenPrefixes {
  if (name === undefined) {
    return new OpenPrefixes()
  }
  const stores = namedPrefixes.get(engine) ?? new Map<string, OpenPrefixes>()
  namedPrefixes.set(engine, stores)
  const prefixes = stores.get(name) ?? new OpenPrefixes()
  stores.set(name, prefixes)
  return prefixes
}

/** A store in the memory of an engine: the base class of `MemoryStore` for every engine. */
export abstract class EmbeddedStore extends Store {
  /** @internal */
  override readonly address = undefined
  /** @internal */
  override readonly engine: Engine
  readonly #native: EngineStore
  readonly #prefixes: OpenPrefixes
  readonly #clock: TimerClock | (() => number) | undefined

  /** @internal */
  constructor(engine: Engine, options: MemoryStoreOptions = {}) {
    super()
    this.engine = engine
    const given = optionsOf('INVALID_OPTION', 'MemoryStore', options, ['maxKeys', 'clock', 'name'])
    const maxKeys = wholeNumber('INVALID_OPTION', 'maxKeys', given.maxKeys ?? DEFAULT_MAX_KEYS, 1, MAX_KEYS)
    const name = given.name === undefined ? undefined : nameOf('name', given.name)
    this.#clock = clockOf('clock', given.clock)
    this.#prefixes = prefixesOf(engine, name)
    this.#native = translated('INVALID_OPTION', `name ${JSON.stringify(name)}`, () => {
      return new engine.MemoryStore(maxKeys, name, this.#clock !== undefined)
    })
  }

  /** The number of keys held separately. Some of them may be in their initial state. */
  get size(): number {
    return this.#native.heldKeys
  }

  /** @internal */
  override get waitingTime(): WaitingTime {
    if (this.#clock === undefined) {
      return super.waitingTime
    }
    return typeof this.#clock === 'function' ? fakeableTime() : timeOf(this.#clock)
  }

  /** @internal */
  override open(prefix: string = DEFAULT_PREFIX, policySet: PolicySet): MemoryBackend {
    const policies = compilePolicySet(this.engine, policySet)
    const use = this.#prefixes.check(prefix, policySet)
    const state = translated('INVALID_OPTION', `prefix ${JSON.stringify(prefix)}`, () => {
      return this.#native.open(prefix, policies)
    })
    warnOfOtherNumbers(state.prefixWithOtherNumbers)
    return new MemoryBackend(this.engine, state, nowOf(this.#clock), policySet, undefined, use)
  }
}

function nowOf(clock: TimerClock | (() => number) | undefined): (() => number) | undefined {
  return typeof clock === 'object' ? () => clock.now() : clock
}
