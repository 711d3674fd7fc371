import type { WasmFlush } from '../../../wasm/redis-engine.js'
import { timers } from '../../platform/timers.js'
import type { ScriptRunner } from './clients.js'
import { FAILURES, type RetryMethod, retryMethodOf } from './retry-method.js'
import type { RedisEngine } from './start.js'

/** The delay before a call is sent again to a server that cannot run scripts. */
const PAUSE_MS = 25

/** The outcome of a script call. */
type ScriptOutcome = { readonly reply: string } | { readonly failure: keyof typeof FAILURES; readonly reason: string }

/** A script call of a flush. */
interface ScriptCall {
  readonly keys: string[]
  readonly args: string[]
  /** Whether the server is assumed to have the script. */
  isScriptKnown: boolean
  outcome: ScriptOutcome | undefined
  /** Why the call must be sent again. */
  retryReason: string
}

const LATE = Symbol('late')

/**
 * A flush in progress. Its script calls are sent until each has an outcome, or until the deadline.
 */
export class SentFlush {
  /**
   * - `waiting`: not sent yet.
   * - `sent`: some script calls are in flight.
   * - `retry`: some script calls have not run, and must be sent again.
   * - `answered`: all script calls have an outcome.
   */
  state: 'waiting' | 'sent' | 'retry' | 'answered' = 'waiting'
  /** Whether it is being sent again. */
  isRepeated = false
  readonly #flush: WasmFlush
  readonly #engine: RedisEngine
  readonly #runner: ScriptRunner
  readonly #onExpired: () => void
  readonly #timer: ReturnType<typeof setTimeout>
  #signalLate!: () => void
  readonly #lateSignal = new Promise<typeof LATE>((resolve) => {
    this.#signalLate = () => resolve(LATE)
  })
  #isLate = false
  #calls: ScriptCall[] = []
  #needsPause = false

  /** @param onExpired - Called if the deadline passes while nothing is in flight. */
  constructor(flush: WasmFlush, engine: RedisEngine, runner: ScriptRunner, timeoutMs: number, onExpired: () => void) {
    this.#flush = flush
    this.#engine = engine
    this.#runner = runner
    this.#onExpired = onExpired
    this.#timer = timers.setTimeout(() => this.#expire(), timeoutMs)
  }

  /** Whether later flushes must wait. Otherwise their calls could be decided first. */
  get blocksOthers(): boolean {
    return this.state === 'retry' || (this.state === 'sent' && this.isRepeated)
  }

  /** Loads the script calls that are to be sent. */
  loadCalls(count: number): void {
    this.#calls = Array.from({ length: count }, (_, number) => ({
      keys: this.#flush.keys(number),
      args: this.#flush.arguments(number),
      isScriptKnown: true,
      outcome: undefined,
      retryReason: '',
    }))
  }

  /** The names of all its keys. */
  get keys(): readonly string[] {
    return this.#calls.length === 1 ? (this.#calls[0] as ScriptCall).keys : this.#calls.flatMap(({ keys }) => keys)
  }

  /**
   * Sends all script calls that have no outcome, in parallel, and resolves when each has been
   * answered.
   */
  async send(): Promise<void> {
    this.state = 'sent'
    if (this.#needsPause) {
      this.#needsPause = false
      await this.#beforeDeadline(pause())
    }
    if (this.#isLate) {
      this.#failUnsent()
      return
    }
    const open = this.#calls.filter(({ outcome }) => outcome === undefined)
    await Promise.all(open.map((call) => this.#sendCall(call)))
    this.state = this.#calls.every(({ outcome }) => outcome !== undefined) ? 'answered' : 'retry'
  }

  /** Reports the outcomes of the script calls to the engine. */
  reportOutcomes(): void {
    for (const { outcome } of this.#calls) {
      const { reply, failure, reason } = outcome as Partial<Record<string, string>>
      if (reply !== undefined) {
        this.#flush.answer(reply)
      } else {
        this.#flush.fail(FAILURES[failure as keyof typeof FAILURES], reason as string)
      }
    }
  }

  /** Cancels the deadline. */
  close(): void {
    timers.clearTimeout(this.#timer)
  }

  async #sendCall(call: ScriptCall): Promise<void> {
    const { digest, source } = this.#engine.script
    const { keys, args } = call
    const run = () =>
      call.isScriptKnown ? this.#runner.evalsha(digest, keys, args) : this.#runner.eval(source, keys, args)
    const answer = await this.#beforeDeadline(replyOf(run))
    if (answer === LATE) {
      call.outcome = { failure: 'timedOut', reason: '' }
    } else if ('reply' in answer) {
      call.outcome = answer
    } else if (answer.kind === 'unknown-script' && call.isScriptKnown) {
      call.isScriptKnown = false
    } else if (answer.kind === 'not-now') {
      this.#needsPause = true
      call.retryReason = answer.reason
    } else {
      call.outcome = { failure: answer.kind === 'unknown-script' ? 'refused' : answer.kind, reason: answer.reason }
    }
  }

  /** Resolves with `LATE` if the deadline passes first. */
  #beforeDeadline<T>(promise: Promise<T>): Promise<T | typeof LATE> {
    return Promise.race([promise, this.#lateSignal])
  }

  #expire(): void {
    this.#isLate = true
    this.#signalLate()
    if (this.state === 'waiting' || this.state === 'retry') {
      this.#failUnsent()
      this.#onExpired()
    }
  }

  /** Fails the script calls that have not run. They are not sent any more. */
  #failUnsent(): void {
    for (const call of this.#calls) {
      call.outcome ??= { failure: 'unavailable', reason: call.retryReason || 'the deadline passed before it was sent' }
    }
    this.state = 'answered'
  }
}

/** A client's reply, or the meaning of its error. */
async function replyOf(call: () => Promise<unknown>): Promise<{ readonly reply: string } | RetryMethod> {
  try {
    const reply = await call()
    // A reply of another type is detected when it is decoded.
    return { reply: reply instanceof Uint8Array ? new TextDecoder().decode(reply) : String(reply) }
  } catch (error) {
    return retryMethodOf(error)
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => timers.setTimeout(resolve, PAUSE_MS))
}
