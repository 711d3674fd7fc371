import type { RedisRound } from '../../../wasm/redis-engine.js'
import { timers } from '../../platform/timers.js'
import type { Carrier } from './clients.js'
import { FAILURES, type Verdict, verdictOf } from './retry-method.js'
import type { Started } from './start.js'

/** A server that can run nothing just now is asked again so much later. */
const PAUSE_MS = 25

/** What became of a job. */
type Outcome = { readonly reply: string } | { readonly failure: keyof typeof FAILURES; readonly why: string }

/** A script call of a round. */
interface Job {
  readonly keys: string[]
  readonly args: string[]
  /** Whether the server is taken to know the script. */
  isKnown: boolean
  outcome: Outcome | undefined
  /** Why it must be sent again. */
  why: string
}

const LATE = Symbol('late')

/** A round on its way: its jobs are sent until each has an outcome, or until its time is over. */
export class SentRound {
  /**
   * - `waiting`: it has not been sent.
   * - `sent`: some of its jobs are under way.
   * - `again`: some of its jobs have not run, and are to be sent again.
   * - `answered`: all of its jobs have an outcome.
   */
  state: 'waiting' | 'sent' | 'again' | 'answered' = 'waiting'
  /** Whether it is being sent again. */
  isRepeated = false
  readonly #round: RedisRound
  readonly #started: Started
  readonly #carrier: Carrier
  readonly #ranOut: () => void
  readonly #timer: ReturnType<typeof setTimeout>
  #late!: () => void
  readonly #end = new Promise<typeof LATE>((resolve) => {
    this.#late = () => resolve(LATE)
  })
  #isLate = false
  #jobs: Job[] = []
  #pauses = false

  /** @param ranOut - Is called when its time is over while nothing of it is under way. */
  constructor(round: RedisRound, started: Started, carrier: Carrier, timeoutMs: number, ranOut: () => void) {
    this.#round = round
    this.#started = started
    this.#carrier = carrier
    this.#ranOut = ranOut
    this.#timer = timers.setTimeout(() => this.#expire(), timeoutMs)
  }

  /** Whether rounds behind it must wait: what they ask could otherwise be decided first. */
  get haltsOthers(): boolean {
    return this.state === 'again' || (this.state === 'sent' && this.isRepeated)
  }

  /** Takes the jobs that are to be sent. */
  take(count: number): void {
    this.#jobs = Array.from({ length: count }, (_, number) => ({
      keys: this.#round.keys(number),
      args: this.#round.arguments(number),
      isKnown: true,
      outcome: undefined,
      why: '',
    }))
  }

  /** The names of all its keys. */
  get keys(): readonly string[] {
    return this.#jobs.length === 1 ? (this.#jobs[0] as Job).keys : this.#jobs.flatMap(({ keys }) => keys)
  }

  /** Sends the jobs that have no outcome, all before any is answered, and resolves when each has been answered. */
  async send(): Promise<void> {
    this.state = 'sent'
    if (this.#pauses) {
      this.#pauses = false
      await this.#inTime(pause())
    }
    if (this.#isLate) {
      this.#giveUp()
      return
    }
    const open = this.#jobs.filter(({ outcome }) => outcome === undefined)
    await Promise.all(open.map((job) => this.#sendJob(job)))
    this.state = this.#jobs.every(({ outcome }) => outcome !== undefined) ? 'answered' : 'again'
  }

  /** Hands the outcomes of its jobs to the round. */
  tell(): void {
    for (const { outcome } of this.#jobs) {
      const { reply, failure, why } = outcome as Partial<Record<string, string>>
      if (reply !== undefined) {
        this.#round.answer(reply)
      } else {
        this.#round.fail(FAILURES[failure as keyof typeof FAILURES], why as string)
      }
    }
  }

  /** Nobody waits any more. */
  close(): void {
    timers.clearTimeout(this.#timer)
  }

  async #sendJob(job: Job): Promise<void> {
    const { digest, source } = this.#started.script
    const { keys, args } = job
    const call = () =>
      job.isKnown ? this.#carrier.evalsha(digest, keys, args) : this.#carrier.eval(source, keys, args)
    const answer = await this.#inTime(answerOf(call))
    if (answer === LATE) {
      job.outcome = { failure: 'timedOut', why: '' }
    } else if ('reply' in answer) {
      job.outcome = answer
    } else if (answer.kind === 'unknown-script' && job.isKnown) {
      job.isKnown = false
    } else if (answer.kind === 'not-now') {
      this.#pauses = true
      job.why = answer.why
    } else {
      job.outcome = { failure: answer.kind === 'unknown-script' ? 'refused' : answer.kind, why: answer.why }
    }
  }

  /** What is promised, unless it comes too late. */
  #inTime<T>(promised: Promise<T>): Promise<T | typeof LATE> {
    return Promise.race([promised, this.#end])
  }

  #expire(): void {
    this.#isLate = true
    this.#late()
    if (this.state === 'waiting' || this.state === 'again') {
      this.#giveUp()
      this.#ranOut()
    }
  }

  /** What has not run is not sent any more. */
  #giveUp(): void {
    for (const job of this.#jobs) {
      job.outcome ??= { failure: 'unavailable', why: job.why || 'there was no time to send it' }
    }
    this.state = 'answered'
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
