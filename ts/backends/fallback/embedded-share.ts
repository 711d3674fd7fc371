import type { Decision } from '../../api/decision.js'
import { TollgateError } from '../../api/error.js'
import type { Keys } from '../../input/keys.js'
import { translated } from '../../input/options.js'
import type { Compound } from '../../policies/policy-set.js'
import { compiledAll } from '../compiled.js'
import type { Engine, EngineLedger, EnginePolicies, EngineStore } from '../engine.js'
import type { Answers } from '../limiter-backend.js'
import { MemoryLedger } from '../memory/memory-backend.js'
import type { Booking, Operation, Performed } from '../operation.js'
import type { Fallback } from './fallback-backend.js'
import { shareOfNumbers } from './share.js'

/** The most keys held apart for one server, by all limiters of the process. */
const MAX_KEYS = 1_000_000

/**
 * The embedded store as a fallback: it enforces a share of a limiter's numbers in this process.
 *
 * All limiters of one prefix on one server share their counts, in all threads, for as long as the process lives.
 */
export class EmbeddedShare implements Fallback {
  readonly #ledger: MemoryLedger
  readonly #engine: Engine
  readonly #share: number

  /**
   * @param engine - What counts.
   * @param address - The server that it answers for.
   * @param shared - The share of the limiter's policies.
   * @param share - How much that is of them.
   * @param origin - What decisions are stamped with.
   * @throws {TollgateError} `INVALID_OPTION` while the prefix is open with other numbers.
   */
  constructor(engine: Engine, address: string, prefix: string, shared: Compound, share: number, origin: object) {
    this.#engine = engine
    this.#share = share
    // No name that a user may give a store has a colon.
    const store = new engine.MemoryStore(MAX_KEYS, `fallback: ${address}`, false)
    const policies = compiledAll(engine, shared)
    const ledger = translated('INVALID_OPTION', `onStoreFailure: prefix ${JSON.stringify(prefix)}`, () => {
      return openIn(store, prefix, policies)
    })
    this.#ledger = new MemoryLedger(engine, ledger, undefined, shared, origin)
  }

  take(key: string, cost: number): Decision {
    return marked(this.#ledger.take(key, cost))
  }

  takeBy(keys: Keys, cost: number): Decision {
    return marked(this.#ledger.takeBy(keys, cost))
  }

  takeMany(keys: readonly string[], costs: readonly number[]): Answers {
    const answers = this.#ledger.takeMany(keys, costs)
    return answers.map((answer) => (answer instanceof TollgateError ? answer : marked(answer)))
  }

  perform(keys: Keys, operation: Operation): Performed {
    if (operation.kind === 'override') {
      const policies = shareOfNumbers(this.#engine, operation.policies, this.#share)
      return policies === undefined ? this.#unchanged(keys) : this.#perform(keys, { ...operation, policies })
    }
    return this.#perform(keys, operation)
  }

  book(keys: Keys, cost: number, maxWaitUs: number): Booking {
    const booking = this.#ledger.book(keys, cost, maxWaitUs)
    marked(booking.decision)
    return booking
  }

  close(): void {
    void this.#ledger.close()
  }

  #perform(keys: Keys, operation: Operation): Performed {
    try {
      const performed = this.#ledger.perform(keys, operation)
      marked(performed.decision)
      return performed
    } catch (error) {
      if (TollgateError.is(error) && error.code === 'STORE_FULL') {
        return this.#unchanged(keys)
      }
      throw error
    }
  }

  /** What becomes of a change that cannot be made. */
  #unchanged(keys: Keys): Performed {
    const { decision } = this.#ledger.perform(keys, { kind: 'peek', cost: 0 })
    return { decision: marked(decision, 'none'), units: 0 }
  }
}

function openIn(store: EngineStore, prefix: string, policies: EnginePolicies): EngineLedger {
  try {
    return store.open(prefix, policies)
  } catch {
    throw new Error('is open in this process with another policy or another share, and its counts are shared')
  }
}

/** Says in a decision that nobody has seen yet who made it. */
function marked(decision: Decision, source: Decision['source'] = 'fallback'): Decision {
  const changed: { source: Decision['source'] } = decision
  changed.source = source
  return decision
}
