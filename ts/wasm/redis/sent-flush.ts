import type { WasmFlush } from '../../../generated/wasm/redis-engine.js'
import { timers } from '../../platform/timers.js'
import type { ScriptRunner } from './clients.js'
import type { RedisEngine } from './start.js'

/** The delay before a call is sent again to a server that cannot run scripts. */
const PAUSE_MS = 25

const LATE = Symbol('late')

/** A flush in progress. Its script calls are sent until each has an answer, or until the deadline. */
export class SentFlush {
  /**
   * - `waiting`: not sent yet.
   * - `sent`: some script calls are in flight.
   * - `retry`: some script calls have not run, and must be sent again.
   * - `answered`: all script calls have an answer.
   * - `appended`: its calls belong to another flush.
   */
  state: 'waiting' | 'sent' | 'retry' | 'answered' | 'appended' = 'waiting'
  /** Whether it is being sent again. */
  isRepeated = false
  readonly #flush: WasmFlush
  readonly #engine: RedisEngine
  readonly #runner: ScriptRunner
  readonly #onExpired: () => void
  #timer: ReturnType<typeof setTimeout>
  #deadline: number
  #signalLate!: () => void
  readonly #lateSignal = new Promise<typeof LATE>((resolve) => {
    this.#signalLate = () => resolve(LATE)
  })
  #isLate = false
  #keys: readonly string[] | undefined

  /** @param onExpired - Called if the deadline passes while nothing is in flight. */
  constructor(flush: WasmFlush, engine: RedisEngine, runner: ScriptRunner, timeoutMs: number, onExpired: () => void) {
    this.#flush = flush
    this.#engine = engine
    this.#runner = runner
    this.#onExpired = onExpired
    this.#deadline = timers.now() + timeoutMs
    this.#timer = timers.setTimeout(() => this.#expire(), timeoutMs)
  }

  get remainingMs(): number {
    return Math.max(0, this.#deadline - timers.now())
  }

  append(later: SentFlush): void {
    later.close()
    later.state = 'appended'
    this.close()
    this.#keys = [...new Set([...this.keys, ...later.keys])]
    this.#deadline = Math.max(this.#deadline, later.#deadline)
    this.#timer = timers.setTimeout(() => this.#expire(), this.remainingMs)
  }

  /** Whether later flushes must wait. Otherwise their calls could be decided first. */
  get blocksOthers(): boolean {
    return this.state === 'retry' || (this.state === 'sent' && this.isRepeated)
  }

  get keys(): readonly string[] {
    this.#keys ??= Array.from(this.#flush.unanswered(), (index) => this.#flush.keys(index)).flat()
    return this.#keys
  }

  /** Sends all script calls without an answer, in parallel, and resolves when each has been answered. */
  async send(): Promise<void> {
    this.state = 'sent'
    if (this.#flush.isPaused()) {
      await this.#beforeDeadline(pause())
    }
    if (this.#isLate) {
      this.#failUnsent()
      return
    }
    await Promise.all(Array.from(this.#flush.unanswered(), (index) => this.#sendCall(index)))
    this.state = this.#flush.isAnswered() ? 'answered' : 'retry'
  }

  close(): void {
    timers.clearTimeout(this.#timer)
  }

  async #sendCall(index: number): Promise<void> {
    const { digest, source } = this.#engine.script
    const [keys, args] = [this.#flush.keys(index), this.#flush.arguments(index)]
    const run = async () =>
      this.#flush.sendsSource(index) ? this.#runner.eval(source, keys, args) : this.#runner.evalsha(digest, keys, args)
    try {
      const reply = await this.#beforeDeadline(run())
      if (reply === LATE) {
        this.#flush.onTimeout(index)
      } else {
        // A reply of another type is detected when it is decoded.
        this.#flush.onReply(index, reply instanceof Uint8Array ? new TextDecoder().decode(reply) : String(reply))
      }
    } catch (error) {
      const { message, systemCode } = clientErrorOf(error)
      this.#flush.onError(index, message, systemCode)
    }
  }

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

  /** Fails the script calls that have not run. */
  #failUnsent(): void {
    this.#flush.failUnsent()
    this.state = 'answered'
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => timers.setTimeout(resolve, PAUSE_MS))
}

/**
 * A client's error: the message that may be the server's, without the command, and the code of a
 * failed system call. `src/wasm/redis_flush.rs` decides by them whether the script has run.
 */
function clientErrorOf(error: unknown): { readonly message: string; readonly systemCode: string } {
  const { message, code, cause } = (typeof error === 'object' && error !== null ? error : {}) as ErrorLike
  const systemCode = [code, cause?.code].find((known) => typeof known === 'string')
  return {
    // @upstash/redis appends the command, which has the keys.
    message: (typeof message === 'string' ? message : '').split(', command was: ')[0] as string,
    systemCode: (systemCode as string | undefined) ?? '',
  }
}

interface ErrorLike {
  readonly message?: unknown
  readonly code?: unknown
  readonly cause?: { readonly code?: unknown }
}
