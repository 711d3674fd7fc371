import type { WasmFlush } from '../../../wasm/redis-engine.js'
import * as glue from '../../../wasm/redis-engine.js'
import type { FlushResponses } from '../../backends/redis/batching/response-decoder.js'
import type { CallBuffer } from './call-buffer.js'
import type { ScriptRunner } from './clients.js'
import { SentFlush } from './sent-flush.js'
import { checkSeed, type RedisEngine } from './start.js'

/** Settles the calls of a flush. */
type CompleteFlush = (flush: number, responses: FlushResponses) => void

/** A flush without a response yet. */
interface PendingFlush {
  readonly number: number
  readonly flush: WasmFlush
  readonly sent: SentFlush
}

/**
 * Sends flushes through a client, as the native store does through its own connection.
 *
 * Calls on a key are decided in call order. One connection keeps the order of flushes. But a flush
 * that has not run must be sent again, and no later call may be decided before it. Until then
 * nothing new is sent: first all flushes in flight are answered, then the flushes to be repeated
 * are sent again, one by one, in order. A client without a single connection may reorder its
 * requests. With such a client a flush waits for the earlier ones that share a key.
 */
export class ClientFlushTransport {
  /** Only the client knows whether it is connected. */
  readonly isUp = true
  readonly isRequestPerFlush: boolean
  readonly #engine: RedisEngine
  readonly #runner: ScriptRunner
  readonly #complete: CompleteFlush
  /** In order of submission. */
  #pending: PendingFlush[] = []
  /** How far the server's clock is ahead, as far as it is known. Only calendar windows need it. */
  #aheadUs = 0

  constructor(engine: RedisEngine, runner: ScriptRunner, complete: CompleteFlush) {
    this.#engine = engine
    this.#runner = runner
    this.isRequestPerFlush = !runner.keepsOrder
    this.#complete = complete
  }

  /** See `native.d.ts`. */
  submit(number: number, callBuffers: readonly CallBuffer[], timeoutMs: number): void {
    checkSeed()
    const flush = new glue.WasmFlush(false)
    for (const { glue } of callBuffers) {
      flush.push(glue)
    }
    this.#add(number, flush, timeoutMs)
  }

  /** See `native.d.ts`. */
  peek(
    number: number,
    { glue: callBuffer }: CallBuffer,
    keys: readonly (string | undefined)[],
    tag: string | undefined,
    cost: number,
    timeoutMs: number,
  ): number {
    checkSeed()
    const writeCode = this.#engine.scratch.writeKeys(keys)
    if (writeCode < 0) {
      return writeCode
    }
    const flush = new glue.WasmFlush(true)
    const code = flush.pushPeek(callBuffer, tag, cost)
    if (code === 0) {
      this.#add(number, flush, timeoutMs)
    }
    return code
  }

  #add(number: number, flush: WasmFlush, timeoutMs: number): void {
    const sent = new SentFlush(flush, this.#engine, this.#runner, timeoutMs, () => this.#onAnswered(added))
    const added = { number, flush, sent }
    if (!this.#runner.keepsOrder) {
      // Its keys must be known while it waits.
      this.#start(added)
    }
    this.#pending.push(added)
    this.#sendReady()
  }

  /** Makes the script calls of a flush, with the best known server time. */
  #start({ flush }: PendingFlush): void {
    flush.start(Date.now() * 1_000 + this.#aheadUs)
  }

  /** Sends all flushes that may be sent. */
  #sendReady(): void {
    const isHalted = this.#pending.some(({ sent }) => sent.blocksOthers)
    if (isHalted) {
      const first = this.#pending.find(({ sent }) => sent.state === 'retry')
      if (first !== undefined && !this.#pending.some(({ sent }) => sent.state === 'sent')) {
        first.sent.isRepeated = true
        void this.#send(first)
      }
      return
    }
    const before = this.#runner.keepsOrder ? undefined : new Set<string>()
    for (const pending of this.#pending) {
      const { sent } = pending
      if (sent.state === 'waiting' && !(before && sent.keys.some((key) => before.has(key)))) {
        this.#start(pending)
        void this.#send(pending)
      }
      if (before) {
        for (const key of sent.keys) {
          before.add(key)
        }
      }
    }
  }

  async #send(pending: PendingFlush): Promise<void> {
    try {
      await pending.sent.send()
      if (pending.sent.state === 'answered') {
        this.#onAnswered(pending)
        return
      }
    } catch {
      this.#finish(pending, undefined)
      return
    }
    this.#sendReady()
  }

  /**
   * Handles a flush whose script calls all have an outcome: it is done, unless some calls must be
   * repeated.
   */
  #onAnswered(pending: PendingFlush): void {
    const { flush, sent } = pending
    try {
      const nowUs = flush.retryStale()
      if (nowUs < 0) {
        const responses = { numbers: flush.complete(), texts: flush.texts() }
        flush.free()
        this.#finish(pending, responses)
        return
      }
      this.#aheadUs = nowUs - Date.now() * 1_000
      sent.state = 'retry'
    } catch {
      this.#finish(pending, undefined)
      return
    }
    this.#sendReady()
  }

  /** Settles a flush. An empty response means that the engine has a defect. */
  #finish(pending: PendingFlush, responses: FlushResponses | undefined): void {
    pending.sent.close()
    this.#pending = this.#pending.filter((other) => other !== pending)
    this.#complete(pending.number, responses ?? { numbers: new Float64Array(0), texts: [] })
    this.#sendReady()
  }
}
