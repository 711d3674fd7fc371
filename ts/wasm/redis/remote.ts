import type { RedisRound } from '../../../wasm/redis-engine.js'
import * as glue from '../../../wasm/redis-engine.js'
import type { RedisAnswers } from '../../redis/answer.js'
import { timers } from '../../timers.js'
import type { Carrier } from './clients.js'
import type { NotedKeys } from './noted-keys.js'
import { checkSeed, type Started } from './start.js'
import { FAILURES, type Verdict, verdictOf } from './verdict.js'

/** A server that can run nothing just now is asked again so much later. */
const PAUSE_MS = 25

/** What became of a round. */
type Settle = (round: number, answers: RedisAnswers) => void

/** What became of a job. */
type Outcome = { readonly reply: string } | { readonly failure: keyof typeof FAILURES; readonly why: string }

/** Sends rounds by a client, as the native store does by its own connection. */
export class Remote {
  /** Whether there is a connection is the client's to know. */
  readonly isUp = true
  readonly #started: Started
  readonly #carrier: Carrier
  readonly #settle: Settle
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
    void this.#send(number, round, timeoutMs)
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
      void this.#send(number, round, timeoutMs)
    }
    return code
  }

  /** Sends a round, and settles it in any case. */
  async #send(number: number, round: RedisRound, timeoutMs: number): Promise<void> {
    let answers: RedisAnswers
    const late = new Lateness(timeoutMs)
    try {
      answers = await this.#answered(round, late)
    } catch {
      // No answers at all say that the engine has a defect.
      answers = { answers: new Float64Array(0), texts: [] }
    }
    late.end()
    this.#settle(number, answers)
  }

  async #answered(round: RedisRound, late: Lateness): Promise<RedisAnswers> {
    let jobs = round.start(Date.now() * 1_000 + this.#aheadUs)
    for (;;) {
      // All are sent before any is answered: a connection keeps them in order.
      const outcomes = await Promise.all(Array.from({ length: jobs }, (_, job) => this.#decided(round, job, late)))
      for (const outcome of outcomes) {
        if ('reply' in outcome) {
          round.answer(outcome.reply)
        } else {
          round.fail(FAILURES[outcome.failure], outcome.why)
        }
      }
      const nowUs = round.again()
      if (nowUs < 0) {
        break
      }
      this.#aheadUs = nowUs - Date.now() * 1_000
      jobs = round.jobCount()
    }
    const answers = { answers: round.settle(), texts: round.texts() }
    round.free()
    return answers
  }

  /** Has a job decided. It is sent again only if it surely has not run, and while there is time. */
  async #decided(round: RedisRound, job: number, late: Lateness): Promise<Outcome> {
    const { digest, source } = this.#started.script
    const [keys, args] = [round.keys(job), round.arguments(job)]
    let isKnown = true
    for (;;) {
      const call = () => (isKnown ? this.#carrier.evalsha(digest, keys, args) : this.#carrier.eval(source, keys, args))
      const answer = await late.or(answerOf(call))
      if (answer === LATE) {
        return { failure: 'timedOut', why: '' }
      }
      if ('reply' in answer) {
        return answer
      }
      const { kind, why } = answer
      if (kind === 'unknown-script' && isKnown) {
        isKnown = false
      } else if (kind === 'not-now') {
        if ((await late.or(pause())) === LATE) {
          return { failure: 'unavailable', why }
        }
      } else {
        return { failure: kind === 'unknown-script' ? 'refused' : kind, why }
      }
    }
  }
}

/** What a client answers, or what its error says. */
async function answerOf(call: () => Promise<unknown>): Promise<{ readonly reply: string } | Verdict> {
  try {
    const reply = await call()
    // Anything else is no reply, and is seen so when it is read.
    return { reply: reply instanceof Uint8Array ? new TextDecoder().decode(reply) : String(reply) }
  } catch (error) {
    return verdictOf(error)
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => timers.setTimeout(resolve, PAUSE_MS))
}

const LATE = Symbol('late')

/** The end of a round's time. */
class Lateness {
  #late!: () => void
  readonly #end = new Promise<typeof LATE>((resolve) => {
    this.#late = () => resolve(LATE)
  })
  readonly #timer: ReturnType<typeof setTimeout>

  constructor(timeoutMs: number) {
    this.#timer = timers.setTimeout(this.#late, timeoutMs)
  }

  /** What is promised, unless it comes too late. */
  or<T>(promised: Promise<T>): Promise<T | typeof LATE> {
    return Promise.race([promised, this.#end])
  }

  /** Nobody waits any more. */
  end(): void {
    timers.clearTimeout(this.#timer)
  }
}
