import type { RedisLedger } from '../../../wasm/redis-engine.js'
import * as glue from '../../../wasm/redis-engine.js'
import type { EnginePolicy } from '../../backends/engine.js'
import { draftNumbers } from '../engine/builder.js'
import { CODES } from '../engine/operation-numbers.js'
import { type Desk, PANICKED } from '../engine/scratch.js'
import { checkSeed } from './start.js'

type Keys = readonly (string | undefined)[]
type Tag = string | undefined

/** One limiter's keys in Redis, whose calls are noted until they are sent: see `RedisLedger` in `native.d.ts`. */
export class NotedKeys {
  readonly glue: RedisLedger
  readonly #desk: Desk

  constructor(ledger: RedisLedger, desk: Desk) {
    this.glue = ledger
    this.#desk = desk
  }

  bindNote(answer: Float64Array): (key: string, cost: number) => void {
    const [ledger, desk] = [this.glue, this.#desk]
    return (key, cost) => {
      checkSeed()
      const laid = desk.layKey(key, 0)
      answer[0] = laid < 0 ? laid : caught(() => ledger.noteTake(laid, cost))
    }
  }

  note(keys: Keys, tag: Tag, operation: number, amount: number): number {
    return this.#note(keys, tag, operation, [amount])
  }

  noteRefund(keys: Keys, tag: Tag, units: number, taken: Float64Array): number {
    return this.#note(keys, tag, CODES.refund, [units, ...taken])
  }

  noteOverride(keys: Keys, tag: Tag, policies: readonly (EnginePolicy | undefined)[], lastingUs: number): number {
    draftNumbers(glue, this.#desk, policies)
    return this.#note(keys, tag, CODES.override, [lastingUs])
  }

  noteBook(keys: Keys, tag: Tag, cost: number, maxWaitUs: number): number {
    return this.#note(keys, tag, CODES.book, [cost, maxWaitUs])
  }

  noteUnbook(keys: Keys, tag: Tag, booked: Float64Array): number {
    return this.#note(keys, tag, CODES.unbook, booked)
  }

  noteReserve(keys: Keys, tag: Tag, hold: Uint8Array, cost: number, lastingUs: number): number {
    return this.#note(keys, tag, CODES.reserve, [...hold, cost, lastingUs])
  }

  noteSettle(keys: Keys, tag: Tag, hold: Uint8Array, numbers: Float64Array): number {
    return this.#note(keys, tag, CODES.settleHold, [...hold, ...numbers])
  }

  close(): void {
    this.glue.close()
  }

  #note(keys: Keys, tag: Tag, code: number, numbers: ArrayLike<number>): number {
    checkSeed()
    const laid = this.#desk.layKeys(keys)
    return laid < 0 ? laid : caught(() => this.glue.note(tag, code, this.#desk.layNumbers(numbers)))
  }
}

/** A failure's code, or 0. A panic is a trap. */
function caught(note: () => number): number {
  try {
    return note()
  } catch {
    return PANICKED
  }
}
