import { compiledAll } from '../compiled.js'
import type { Compound } from '../compound.js'
import type { Decision } from '../decision.js'
import type { Engine, EngineLedger, EnginePolicies, EngineStore } from '../engine.js'
import { TollgateError } from '../error.js'
import type { Keys } from '../keys.js'
import { MemoryLedger } from '../memory/ledger.js'
import type { Booking, Performed } from '../operation.js'
import { translated } from '../options.js'
import type { Answers } from '../store.js'
import type { Answerable, Fallback } from './guarded-ledger.js'

/** The most keys held apart for one server, by all limiters of the process. */
const MAX_KEYS = 1_000_000

/**
 * The embedded store as a fallback: it enforces a share of a limiter's numbers in this process.
 *
 * All limiters of one prefix on one server share their counts, in all threads, for as long as the process lives.
 */
export class EmbeddedShare implements Fallback {
  readonly #ledger: MemoryLedger

  /**
   * @param engine - What counts.
   * @param address - The server that it answers for.
   * @param compound - The share of the limiter's policies.
   * @param origin - What decisions are stamped with.
   * @throws {TollgateError} `INVALID_OPTION` while the prefix is open with other numbers.
   */
  constructor(engine: Engine, address: string, prefix: string, compound: Compound, origin: object) {
    // No name that a user may give a store has a colon.
    const store = new engine.MemoryStore(MAX_KEYS, `fallback: ${address}`, false)
    const policies = compiledAll(engine, compound)
    const ledger = translated('INVALID_OPTION', `onStoreFailure: prefix ${JSON.stringify(prefix)}`, () => {
      return openIn(store, prefix, policies)
    })
    this.#ledger = new MemoryLedger(engine, ledger, undefined, compound, origin)
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

  perform(keys: Keys, operation: Answerable): Performed {
    const performed = this.#ledger.perform(keys, operation)
    marked(performed.decision)
    return performed
  }

  book(keys: Keys, cost: number, maxWaitUs: number): Booking {
    const booking = this.#ledger.book(keys, cost, maxWaitUs)
    marked(booking.decision)
    return booking
  }

  close(): void {
    void this.#ledger.close()
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
function marked(decision: Decision): Decision {
  const changed: { source: Decision['source'] } = decision
  changed.source = 'fallback'
  return decision
}
