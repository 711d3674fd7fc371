import type { RedisRound } from '../../../wasm/redis-engine.js'
import * as glue from '../../../wasm/redis-engine.js'
import type { RedisAnswers } from '../../backends/redis/batching/response-decoder.js'
import type { NotedKeys } from './call-buffer.js'
import type { Carrier } from './clients.js'
import { SentRound } from './sent-flush.js'
import { checkSeed, type Started } from './start.js'

/** What became of a round. */
type Settle = (round: number, answers: RedisAnswers) => void

/** A round that has no answer yet, and what is done with it. */
interface Unanswered {
  readonly number: number
  readonly round: RedisRound
  readonly sent: SentRound
}

/**
 * Sends rounds by a client, as the native store does by its own connection.
 *
 * Calls on a key are decided in the order in which they were made. A connection keeps rounds in order. But what has not
 * run must be sent again, and nothing that came later may be decided before: then nothing new is sent until all that is
 * under way has been answered, and what is to be repeated goes again, round by round, in its order. A client without
 * one connection may have requests overtake each other: there a round waits for the earlier ones that share a key.
 */
export class Remote {
  /** Whether there is a connection is the client's to know. */
  readonly isUp = true
  readonly #started: Started
  readonly #carrier: Carrier
  readonly #settle: Settle
  /** In the order in which they came. */
  #unanswered: Unanswered[] = []
  /** By how much the server's clock is ahead, as far as is known. It matters for calendars alone. */
  #aheadUs = 0

  constructor(started: Started, carrier: Carrier, settle: Settle) {
    this.#started = started
    this.#carrier = carrier
    this.#settle = settle
  }

  /** See `native.d.ts`. */
  submit(number: number, ledgers: readonly NotedKeys[], timeoutMs: number): void {
    checkSeed()
    const round = new glue.RedisRound(false)
    for (const { glue } of ledgers) {
      round.push(glue)
    }
    this.#add(number, round, timeoutMs)
  }

  /** See `native.d.ts`. */
  peek(
    number: number,
    { glue: ledger }: NotedKeys,
    keys: readonly (string | undefined)[],
    tag: string | undefined,
    cost: number,
    timeoutMs: number,
  ): number {
    checkSeed()
    const laid = this.#started.desk.layKeys(keys)
    if (laid < 0) {
      return laid
    }
    const round = new glue.RedisRound(true)
    const code = round.pushPeek(ledger, tag, cost)
    if (code === 0) {
      this.#add(number, round, timeoutMs)
    }
    return code
  }

  #add(number: number, round: RedisRound, timeoutMs: number): void {
    const sent = new SentRound(round, this.#started, this.#carrier, timeoutMs, () => this.#answered(added))
    const added = { number, round, sent }
    if (!this.#carrier.keepsOrder) {
      // Its keys must be known while it waits.
      this.#start(added)
    }
    this.#unanswered.push(added)
    this.#sendWaiting()
  }

  /** Makes the script calls of a round, around the server's time as it is known now. */
  #start({ round, sent }: Unanswered): void {
    sent.take(round.start(Date.now() * 1_000 + this.#aheadUs))
  }

  /** Sends what may go. */
  #sendWaiting(): void {
    const isHalted = this.#unanswered.some(({ sent }) => sent.haltsOthers)
    if (isHalted) {
      const first = this.#unanswered.find(({ sent }) => sent.state === 'again')
      if (first !== undefined && !this.#unanswered.some(({ sent }) => sent.state === 'sent')) {
        first.sent.isRepeated = true
        void this.#send(first)
      }
      return
    }
    const before = this.#carrier.keepsOrder ? undefined : new Set<string>()
    for (const one of this.#unanswered) {
      const { sent } = one
      if (sent.state === 'waiting' && !(before && sent.keys.some((key) => before.has(key)))) {
        this.#start(one)
        void this.#send(one)
      }
      if (before) {
        for (const key of sent.keys) {
          before.add(key)
        }
      }
    }
  }

  async #send(one: Unanswered): Promise<void> {
    try {
      await one.sent.send()
      if (one.sent.state === 'answered') {
        this.#answered(one)
        return
      }
    } catch {
      this.#end(one, undefined)
      return
    }
    this.#sendWaiting()
  }

  /** All jobs of a round have an outcome: the round ends, unless calls of it are to be asked again. */
  #answered(one: Unanswered): void {
    const { round, sent } = one
    try {
      sent.tell()
      const nowUs = round.again()
      if (nowUs < 0) {
        const answers = { answers: round.settle(), texts: round.texts() }
        round.free()
        this.#end(one, answers)
        return
      }
      this.#aheadUs = nowUs - Date.now() * 1_000
      sent.take(round.jobCount())
      sent.state = 'again'
    } catch {
      this.#end(one, undefined)
      return
    }
    this.#sendWaiting()
  }

  /** Settles a round. No answers at all say that the engine has a defect. */
  #end(one: Unanswered, answers: RedisAnswers | undefined): void {
    one.sent.close()
    this.#unanswered = this.#unanswered.filter((other) => other !== one)
    this.#settle(one.number, answers ?? { answers: new Float64Array(0), texts: [] })
    this.#sendWaiting()
  }
}
