import { invalid, nameOf, optionsOf, translated, wholeNumber } from '../../input/options.js'
import { fakeableTime, type WaitingTime } from '../../platform/waiting-time.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { compilePolicySet } from '../compile-policies.js'
import type { Engine, EngineStore } from '../engine.js'
import { Store } from '../limiter-backend.js'
import { MemoryBackend } from './memory-backend.js'

/** The options of a {@link MemoryStore}. */
export interface MemoryStoreOptions {
  /**
   * The most keys held separately, over all limiters on the store. Default: 1,000,000.
   *
   * A key in its initial state makes room for a new one. If all keys are in use, new keys share
   * 1,024 overflow counts per limiter: memory stays bounded, and no key's count is lost.
   */
  readonly maxKeys?: number
  /**
   * The deciding clock: it returns epoch milliseconds, as `Date.now` does. Default: the system
   * clock, with microseconds.
   *
   * With a clock, `wait` and `acquire` use the platform's timers and `Date` as they are at the time
   * of a call, so that a test can fake them: `clock: () => Date.now()`.
   */
  readonly clock?: () => number
  /**
   * Shares the store with all threads of this process that open the same name. Letters, digits,
   * `_`, `.` and `-`, up to 32, starting with a letter. A named store lives as long as the process.
   */
  readonly name?: string
}

const DEFAULT_MAX_KEYS = 1_000_000

/** More keys than a process can hold: 2^32. */
const MAX_KEYS = 2 ** 32

/** The prefix of limiters without one. */
const DEFAULT_PREFIX = 'default'

/** A store in the memory of an engine: the base class of `MemoryStore` for every engine. */
export abstract class EmbeddedStore extends Store {
  /** @internal */
  override readonly address = undefined
  /** @internal */
  override readonly engine: Engine
  readonly #native: EngineStore
  readonly #clock: (() => number) | undefined

  /** @internal */
  constructor(engine: Engine, options: MemoryStoreOptions = {}) {
    super()
    this.engine = engine
    const given = optionsOf('INVALID_OPTION', 'MemoryStore', options, ['maxKeys', 'clock', 'name'])
    const maxKeys = wholeNumber('INVALID_OPTION', 'maxKeys', given.maxKeys ?? DEFAULT_MAX_KEYS, 1, MAX_KEYS)
    const name = given.name === undefined ? undefined : nameOf('name', given.name)
    this.#clock = clockOf(given.clock)
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
    return this.#clock === undefined ? super.waitingTime : fakeableTime
  }

  /** @internal */
  override open(prefix: string | undefined, policySet: PolicySet): MemoryBackend {
    const policies = compilePolicySet(this.engine, policySet)
    const state = translated('INVALID_OPTION', `prefix ${JSON.stringify(prefix ?? DEFAULT_PREFIX)}`, () => {
      return this.#native.open(prefix ?? DEFAULT_PREFIX, policies)
    })
    return new MemoryBackend(this.engine, state, this.#clock, policySet)
  }
}

function clockOf(clock: unknown): (() => number) | undefined {
  if (clock === undefined || typeof clock === 'function') {
    return clock as (() => number) | undefined
  }
  throw invalid('INVALID_OPTION', 'clock', 'must be a function that returns epoch milliseconds', clock)
}
