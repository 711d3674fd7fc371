import type { WasmFlush } from '../../../generated/wasm/redis-engine.js'
import * as glue from '../../../generated/wasm/redis-engine.js'
import type { FlushResponses } from '../../backends/redis/batching/response-decoder.js'
import { HAS_REQUEST_IO } from '../../platform/request-io.js'
import { timers } from '../../platform/timers.js'
import type { CallBuffer } from './call-buffer.js'
import type { ScriptRunner } from './clients.js'
import { SentFlush } from './sent-flush.js'
import { checkSeed, type RedisEngine } from './start.js'

interface FlushOwner {
  /** The responses to the calls of a flush begin at the index `first`. */
  complete(flush: number, responses: FlushResponses, first: number): void
  expire(flush: number): void
}

interface PendingFlush {
  readonly flush: WasmFlush
  readonly sent: SentFlush
  parts: FlushPart[]
}

/** A submitted flush. */
interface FlushPart {
  readonly number: number
  /** The index of its first call. */
  readonly first: number
  /** Set for its own deadline if it is sent with others. */
  timer?: ReturnType<typeof setTimeout>
}

/**
 * Sends flushes through a client, as the native store does through its own connection.
 *
 * Calls on a key are decided in call order, so no later call may be decided before a flush that must be sent
 * again. Until then nothing new is sent: first all flushes in flight are answered, then those to be repeated are
 * sent again, one by one, in order.
 *
 * A client without a single connection may reorder its requests. With it a flush waits for the earlier ones that
 * share a key. Flushes that have waited for the same one are sent as one: otherwise the calls of each tick on a hot
 * key would take a round trip of their own.
 *
 * Where I/O belongs to one request, no flush waits for another one.
 */
export class ClientFlushTransport {
  /** Only the client knows whether it is connected. */
  readonly isUp = true
  readonly isRequestPerFlush: boolean
  readonly #engine: RedisEngine
  readonly #runner: ScriptRunner
  readonly #owner: FlushOwner
  /** In order of submission. */
  #pending: PendingFlush[] = []
  /** How far the server's clock is ahead, as far as it is known. Only calendar windows need it. */
  #aheadUs = 0

  /** @param oneKeyPerScript - Set, too, once the server has refused keys of several slots. */
  constructor(
    engine: RedisEngine,
    runner: ScriptRunner,
    private oneKeyPerScript: boolean,
    owner: FlushOwner,
  ) {
    this.#engine = engine
    this.#runner = runner
    this.isRequestPerFlush = !runner.keepsOrder
    this.#owner = owner
  }

  submit(number: number, callBuffers: readonly CallBuffer[], timeoutMs: number): void {
    checkSeed()
    const flush = new glue.WasmFlush(false)
    for (const { glue } of callBuffers) {
      flush.push(glue)
    }
    this.#add(number, flush, timeoutMs)
  }

  peek(
    number: number,
    { glue: callBuffer }: CallBuffer,
    keys: readonly (string | undefined)[],
    tag: string | undefined,
    cost: number | Float64Array,
    timeoutMs: number,
  ): number {
    checkSeed()
    const writeCode = this.#engine.scratch.writeKeys(keys)
    if (writeCode < 0) {
      return writeCode
    }
    const flush = new glue.WasmFlush(true)
    const code =
      typeof cost === 'number'
        ? flush.pushPeek(callBuffer, tag, cost)
        : flush.pushMeteredPeek(callBuffer, tag, this.#engine.scratch.writeNumbers(cost))
    if (code === 0) {
      this.#add(number, flush, timeoutMs)
    }
    return code
  }

  #add(number: number, flush: WasmFlush, timeoutMs: number): void {
    const sent = new SentFlush(flush, this.#engine, this.#runner, timeoutMs, () => this.#onAnswered(added))
    const added: PendingFlush = { flush, sent, parts: [{ number, first: 0 }] }
    if (!this.#runner.keepsOrder) {
      // Its keys must be known while it waits.
      this.#start(added)
    }
    if (!HAS_REQUEST_IO) {
      this.#pending.push(added)
    }
    this.#sendReady(added)
  }

  /** Makes the script calls of a flush, with the best known server time. */
  #start({ flush }: PendingFlush): void {
    flush.start(Date.now() * 1_000 + this.#aheadUs, this.oneKeyPerScript)
  }

  /** Sends the flushes that need not wait any more, once a flush has changed. */
  #sendReady(changed: PendingFlush): void {
    if (HAS_REQUEST_IO) {
      this.#sendAlone(changed)
      return
    }
    const isHalted = this.#pending.some(({ sent }) => sent.blocksOthers)
    if (isHalted) {
      const first = this.#pending.find(({ sent }) => sent.state === 'retry')
      if (first !== undefined && !this.#pending.some(({ sent }) => sent.state === 'sent')) {
        first.sent.isRepeated = true
        void this.#send(first)
      }
      return
    }
    const waiting = this.#pending.filter(({ sent }) => sent.state === 'waiting')
    for (const ready of this.#runner.keepsOrder ? waiting : this.#readyFlushes()) {
      this.#start(ready)
      void this.#send(ready)
    }
  }

  #sendAlone(pending: PendingFlush): void {
    if (pending.sent.state === 'waiting') {
      this.#start(pending)
    }
    if (pending.sent.state === 'waiting' || pending.sent.state === 'retry') {
      void this.#send(pending)
    }
  }

  /**
   * The waiting flushes that share no key with an earlier one. A later one that shares keys only with
   * one of these is appended to it.
   */
  #readyFlushes(): PendingFlush[] {
    const ready: PendingFlush[] = []
    /** By key: the flush with calls on it; `undefined` if that flush is not ready to be sent. */
    const owners = new Map<string, PendingFlush | undefined>()
    for (const pending of this.#pending) {
      const { keys, state } = pending.sent
      const [first, ...others] = new Set(keys.filter((key) => owners.has(key)).map((key) => owners.get(key)))
      let owner: PendingFlush | undefined
      if (state === 'waiting' && !keys.some((key) => owners.has(key))) {
        owner = pending
        ready.push(pending)
      } else if (state === 'waiting' && first && others.length === 0 && this.#append(first, pending)) {
        owner = first
      }
      for (const key of keys) {
        owners.set(key, owner)
      }
    }
    this.#pending = this.#pending.filter(({ sent }) => sent.state !== 'appended')
    return ready
  }

  /** Appends a waiting flush to an earlier one, unless a request cannot have both. */
  #append(ready: PendingFlush, later: PendingFlush): boolean {
    const first = ready.flush.callCount()
    if (!ready.flush.append(later.flush)) {
      return false
    }
    later.flush.free()
    const parts = later.parts.map(({ number }) => ({ number, first }))
    this.#setTimers(
      ready,
      ready.parts.filter(({ timer }) => timer === undefined),
      ready.sent.remainingMs,
    )
    this.#setTimers(ready, parts, later.sent.remainingMs)
    ready.parts.push(...parts)
    ready.sent.append(later.sent)
    return true
  }

  /** Sets timers for the deadlines of parts: their flush will have a later one. */
  #setTimers(flush: PendingFlush, parts: readonly FlushPart[], remainingMs: number): void {
    for (const part of parts) {
      part.timer = timers.setTimeout(() => {
        flush.parts = flush.parts.filter((other) => other !== part)
        this.#owner.expire(part.number)
      }, remainingMs)
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
    this.#sendReady(pending)
  }

  /** Handles a flush whose script calls all have an outcome: some may have to be repeated. */
  #onAnswered(pending: PendingFlush): void {
    const { flush, sent } = pending
    try {
      if (flush.retryCrossSlot()) {
        this.oneKeyPerScript = true
        sent.state = 'retry'
        this.#sendReady(pending)
        return
      }
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
    this.#sendReady(pending)
  }

  /** Settles a flush. An empty response means that the engine has a defect. */
  #finish(pending: PendingFlush, responses: FlushResponses | undefined): void {
    pending.sent.close()
    this.#pending = this.#pending.filter((other) => other !== pending)
    for (const { number, first, timer } of pending.parts) {
      timers.clearTimeout(timer)
      this.#owner.complete(number, responses ?? { numbers: new Float64Array(0), texts: [] }, first)
    }
    this.#sendReady(pending)
  }
}
