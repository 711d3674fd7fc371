import { invalid, nameOf, optionsOf, translated, wholeNumber } from '../../input/options.js'
import type { Compound } from '../../policies/policy-set.js'
import { compiledAll } from '../compiled.js'
import type { Engine, EngineStore } from '../engine.js'
import { Store } from '../limiter-backend.js'
import { MemoryLedger } from './memory-backend.js'

/** The options of a {@link MemoryStore}. */
export interface MemoryStoreOptions {
  /**
   * The most keys held apart, over all limiters on the store. Default: 1,000,000.
   *
   * A key that is as if never used makes room for others. When all are in use, newcomers share one
   * of 1,024 counts per limiter: memory stays bounded, and no key's count is forgotten.
   */
  readonly maxKeys?: number
  /** The deciding clock: epoch milliseconds, as of `Date.now`. Default: the system's, with microseconds. */
  readonly clock?: () => number
  /**
   * Shares the store with all threads of this process that open the same name. Letters, digits,
   * `_`, `.` and `-`, up to 32, starting with a letter. A named store lives as long as the process.
   */
  readonly name?: string
}

const DEFAULT_MAX_KEYS = 1_000_000

/** More keys than any process holds: 2^32. */
const MOST_KEYS = 2 ** 32

/** The prefix of limiters that name none. */
const DEFAULT_PREFIX = 'default'

/** Keeps the counts in the memory of an engine: `MemoryStore`, whichever engine it has. */
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
    const maxKeys = wholeNumber('INVALID_OPTION', 'maxKeys', given.maxKeys ?? DEFAULT_MAX_KEYS, 1, MOST_KEYS)
    const name = given.name === undefined ? undefined : nameOf('name', given.name)
    this.#clock = clockOf(given.clock)
    this.#native = translated('INVALID_OPTION', `name ${JSON.stringify(name)}`, () => {
      return new engine.MemoryStore(maxKeys, name, this.#clock !== undefined)
    })
  }

  /** The number of keys held apart now, some of which may be as if never used. */
  get size(): number {
    return this.#native.heldKeys
  }

  /** @internal */
  override open(prefix: string | undefined, compound: Compound): MemoryLedger {
    const policies = compiledAll(this.engine, compound)
    const ledger = translated('INVALID_OPTION', `prefix ${JSON.stringify(prefix ?? DEFAULT_PREFIX)}`, () => {
      return this.#native.open(prefix ?? DEFAULT_PREFIX, policies)
    })
    return new MemoryLedger(this.engine, ledger, this.#clock, compound)
  }
}

function clockOf(clock: unknown): (() => number) | undefined {
  if (clock === undefined || typeof clock === 'function') {
    return clock as (() => number) | undefined
  }
  throw invalid('INVALID_OPTION', 'clock', 'must be a function that returns epoch milliseconds', clock)
}
