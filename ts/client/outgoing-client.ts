/// <reference lib="esnext.disposable" preserve="true" />

import { TollgateError } from '../api/error.js'
import type { PermitSignal } from '../api/permit.js'
import { abortError, addAbortListener, removeAbortListener } from '../api/scheduled-waits.js'
import type { AbortSignalLike } from '../api/wait.js'
import { checkCount, invalid } from '../input/options.js'
import { Events } from '../platform/events.js'
import { inThisContext } from '../platform/root-context.js'
import { type Answer, type AttemptResult, answerOf } from './answer.js'
import { fetchCallOf } from './fetch-call.js'
import { KeyQueue } from './key-queue.js'
import {
  type CheckedCall,
  type CheckedClientOptions,
  type ClientEvents,
  type ClientOptions,
  type ClientStatus,
  type CloseOptions,
  clientOptionsOf,
  closeTimeoutOf,
  type FetchFunction,
  type RunContext,
  type ScheduleOptions,
  scheduleOptionsOf,
} from './options.js'
import { backoffMs, mayRetry } from './retry.js'
import type { ScheduledCall } from './scheduled-call.js'
import { type Turn, turnsOf } from './turn.js'

/**
 * Sends calls to a service that limits its callers.
 *
 * Each call waits for its turn by the limiter: under rates for its slot (`wait`), under
 * `concurrency` for a permit (`acquire`), which it holds while it runs, and under windows for units
 * (`take`). Over Redis all processes share the turns. Within a process the calls of a key start by
 * priority, then in the order in which they were made.
 *
 * If the server refuses a call (429, or 503 with a time), the key is blocked in the limiter for the
 * time that the server names, so that all processes pause. A block never shortens another one. Then
 * the call is sent again, up to `retries`; after other failures only if it is idempotent.
 *
 * @typeParam K - The limiter's keys.
 * @typeParam N - The names of its limits.
 * @typeParam T - The names of its tiers.
 *
 * @example
 * const limiter = new RateLimiter(gcra({ limit: 50, period: '1s' }), { store: 'redis://localhost', prefix: 'out' })
 * const api = new OutgoingClient({ limiter })
 * const response = await api.fetch('https://api.example.com/items')
 */
export class OutgoingClient<K = string, N extends string = string, T extends string = never> {
  readonly #options: CheckedClientOptions
  readonly #events = new Events<ClientEvents<K>>()
  readonly #ask
  readonly #queues = new Map<string, KeyQueue>()
  /** The calls between two attempts, with what ends their delay. */
  readonly #delayed = new Map<ScheduledCall, () => void>()
  readonly #running = new Set<AbortController>()
  #queued = 0
  #sequence = 0
  #isClosed = false
  /** Whether `close` waits no longer. */
  #isAbandoned = false
  #onDrained: (() => void)[] = []

  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options: ClientOptions<K, N, T>) {
    checkCount(arguments.length, 1, 'OutgoingClient takes an object of options')
    this.#options = clientOptionsOf(options)
    this.#ask = turnsOf(this.#options.limiter, this.#options.time)
  }

  /**
   * Runs a function at its turn, and resolves to its result. With a permit, the permit is held until
   * the promise of the function settles.
   *
   * Rejects with the error of the function; with `WAIT_TOO_LONG` if there is no turn within
   * `maxWaitMs`, `OVERLOADED` if `maxQueued` calls wait already, `ABORTED`, `CLOSED`, and with the
   * errors of the limiter.
   *
   * A result or an error is read as an HTTP answer if it has a `status` or `statusCode`, and
   * `headers`, itself or in its `response`: those of `fetch`, undici, axios, got and most SDKs have.
   *
   * @param run - Receives the signal of the call, the number of the attempt, and the decision.
   *
   * @example
   * const { data } = await api.schedule(({ signal }) => axios.get(url, { signal }), { key: 'tenant:7', priority: 1 })
   */
  async schedule<R>(run: (context: RunContext<N>) => R, options?: ScheduleOptions<K, T>): Promise<Awaited<R>> {
    checkCount(arguments.length, 2, 'schedule takes a function and an object of options')
    if (typeof run !== 'function') {
      throw invalid('INVALID_OPTION', 'run', 'must be a function', run)
    }
    const call = scheduleOptionsOf('schedule', options, { ...this.#options, isIdempotent: false })
    return (await this.#schedule(run as (context: RunContext) => unknown, call)) as Awaited<R>
  }

  /**
   * Returns a function that calls the given one by {@link schedule}.
   *
   * @param options - The options of its calls, or a function of their arguments that returns them.
   *
   * @example
   * const send = api.wrap((user: string, text: string) => mailer.send(user, text), (user) => ({ key: user }))
   * await send('ann', 'hello')
   */
  wrap<Args extends unknown[], R>(
    run: (...args: Args) => R | PromiseLike<R>,
    options?: ScheduleOptions<K, T> | ((...args: Args) => ScheduleOptions<K, T>),
  ): (...args: Args) => Promise<R> {
    checkCount(arguments.length, 2, 'wrap takes a function and options')
    if (typeof run !== 'function') {
      throw invalid('INVALID_OPTION', 'run', 'must be a function', run)
    }
    return async (...args) => {
      const own = typeof options === 'function' ? options(...args) : options
      return this.schedule(() => run(...args), own)
    }
  }

  /**
   * {@link schedule} for a request of `fetch`. Its key is the host of the URL unless one is given. It
   * is idempotent if its method is (RFC 9110), or if it has a header `Idempotency-Key`. A request
   * whose body is a stream is not sent again.
   *
   * Resolves to the response, also to the last one that was refused. The turn ends, and a permit is
   * released, when the response has its headers; to hold the permit until the body has been read, use
   * {@link schedule}.
   *
   * @param input - As for the platform's function.
   * @param init - As for the platform's function. Its `signal` also ends the wait.
   */
  async fetch(
    input: Parameters<FetchFunction>[0],
    init?: Parameters<FetchFunction>[1],
    options?: ScheduleOptions<K, T>,
  ): Promise<Awaited<ReturnType<FetchFunction>>> {
    checkCount(arguments.length, 3, 'fetch takes a URL or a request, its options, and those of the call')
    const { host, signal, isIdempotent, isRepeatable, send } = fetchCallOf(input, init, this.#options.fetch)
    const { key = host, maxWaitMs } = this.#options
    const call = scheduleOptionsOf('fetch', options, { key, maxWaitMs, isIdempotent })
    const run = ({ signal }: RunContext) => send(signal)
    const answer = await this.#schedule(run, { ...call, signal: call.signal ?? signal }, isRepeatable)
    return answer as Awaited<ReturnType<FetchFunction>>
  }

  /** The numbers of waiting and running calls. */
  status(): ClientStatus {
    checkCount(arguments.length, 0, 'status takes no arguments')
    return { queued: this.#queued, running: this.#running.size, isClosed: this.#isClosed }
  }

  /**
   * Calls a function with each event of a kind.
   *
   * @returns A function that removes it.
   */
  on<Name extends keyof ClientEvents<K>>(name: Name, listener: (event: ClientEvents<K>[Name]) => void): () => void {
    checkCount(arguments.length, 2, 'on takes the name of an event and a function')
    const names = ['start', 'end', 'retry', 'giveUp', 'block']
    if (!names.includes(name)) {
      throw invalid('INVALID_OPTION', 'event', `must be one of ${names.join(', ')}`, name)
    }
    if (typeof listener !== 'function') {
      throw invalid('INVALID_OPTION', 'listener', 'must be a function', listener)
    }
    return this.#events.on(name, listener)
  }

  /**
   * Rejects further calls with `CLOSED`, and resolves when all earlier calls have ended, retries
   * among them. May be called again. It does not close the limiter.
   */
  async close(options?: CloseOptions): Promise<void> {
    const timeoutMs = closeTimeoutOf(options)
    this.#isClosed = true
    if (this.#isDrained) {
      return
    }
    const { time } = this.#options
    const timer = timeoutMs === undefined ? undefined : time.setTimeout(() => this.#abandonAll(), timeoutMs)
    await new Promise<void>((resolve) => this.#onDrained.push(resolve))
    time.clearTimeout(timer)
  }

  /** {@link close}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  get #isDrained(): boolean {
    return this.#queued === 0 && this.#running.size === 0
  }

  #checkDrained(): void {
    if (this.#isClosed && this.#isDrained) {
      this.#resolveDrained()
    }
  }

  #resolveDrained(): void {
    for (const resolve of this.#onDrained.splice(0)) {
      resolve()
    }
  }

  /** Rejects waiting calls, and aborts running ones. */
  #abandonAll(): void {
    this.#isAbandoned = true
    for (const queue of this.#queues.values()) {
      queue.close(closedError)
    }
    for (const [call, stop] of [...this.#delayed]) {
      stop()
      this.#giveUp(call, closedError())
    }
    for (const controller of this.#running) {
      controller.abort(closedError())
    }
    // A function that ignores its signal does not keep the client open.
    this.#resolveDrained()
  }

  async #schedule(run: ScheduledCall['run'], call: CheckedCall, isRepeatable = true): Promise<unknown> {
    if (this.#isClosed) {
      throw closedError()
    }
    if (call.signal?.aborted) {
      throw abortError(call.signal, false)
    }
    const { maxQueued, time } = this.#options
    if (this.#queued >= maxQueued) {
      const message = `${maxQueued} calls wait already; raise maxQueued, or make fewer calls`
      throw new TollgateError('OVERLOADED', message)
    }
    const queue = this.#queueOf(call.key)
    return new Promise((resolve, reject) => {
      const maxRetries = isRepeatable ? this.#options.retries.limit : 0
      const settle = { resolve, reject, sequence: this.#sequence++, attempt: 1, waitsSince: time.now(), maxRetries }
      this.#queued++
      // Its turn may come in the context of another call.
      queue.add({ ...call, run: inThisContext(run), ...settle })
    })
  }

  #enqueue(call: ScheduledCall): void {
    call.waitsSince = this.#options.time.now()
    this.#queueOf(call.key).add(call)
  }

  #queueOf(key: unknown): KeyQueue {
    const name = nameOfKey(key)
    const known = this.#queues.get(name)
    if (known !== undefined) {
      return known
    }
    const queue = new KeyQueue(key, {
      ask: this.#ask,
      time: this.#options.time,
      start: (call, turn) => void this.#run(call, turn),
      giveUp: (call, error) => this.#giveUp(call, error),
      onIdle: () => this.#queues.delete(name),
    })
    this.#queues.set(name, queue)
    return queue
  }

  #giveUp(call: ScheduledCall, error: unknown): void {
    this.#queued--
    this.#events.emit('giveUp', { key: call.key as K, error })
    call.reject(error)
    this.#checkDrained()
  }

  async #run(call: ScheduledCall, turn: Turn): Promise<void> {
    const { time } = this.#options
    const { attempt, priority } = call
    const key = call.key as K
    const startedAt = time.now()
    const controller = new AbortController()
    this.#queued--
    this.#running.add(controller)
    this.#events.emit('start', { key, priority, attempt, waitedMs: startedAt - call.waitsSince })
    const result = await this.#attempt(call, turn, controller)
    this.#running.delete(controller)
    turn.end()
    const answer = answerOf(result, time.epochMs())
    const { status } = answer
    const isSuccess = !result.isError && status !== 429 && !(status !== undefined && status >= 500)
    this.#events.emit('end', { key, attempt, durationMs: time.now() - startedAt, isSuccess, status })
    this.#finish(call, result, answer)
    this.#checkDrained()
  }

  async #attempt(call: ScheduledCall, turn: Turn, controller: AbortController): Promise<AttemptResult> {
    const unlink = [call.signal, turn.signal].map((signal) => linkSignal(signal, controller))
    const { attempt } = call
    const signal = controller.signal as PermitSignal
    try {
      return { isError: false, value: await call.run({ signal, attempt, decision: turn.decision }) }
    } catch (error) {
      return { isError: true, error }
    } finally {
      for (const each of unlink) {
        each()
      }
    }
  }

  /** Settles a call after an attempt, or sends it again. */
  #finish(call: ScheduledCall, result: AttemptResult, { status, delayMs }: Answer): void {
    const { retries } = this.#options
    const backoff = backoffMs(call.attempt, retries)
    const isRefused = status === 429 || (status === 503 && delayMs !== undefined)
    if (isRefused) {
      void this.#block(call.key, status, delayMs ?? backoff)
    }
    // Without a retry the caller gets the answer of the server.
    const isTooLong = (delayMs ?? 0) > call.maxWaitMs
    const isAborted = call.signal?.aborted === true || this.#isAbandoned
    const isLast = call.attempt > call.maxRetries || isTooLong || isAborted
    if (isLast || !mayRetry(result, status, call.isIdempotent)) {
      settle(call, result)
      return
    }
    discard(result)
    call.attempt++
    this.#queued++
    // A blocked key makes the call wait in any case.
    this.#retry(call, isRefused ? 0 : backoff, status)
  }

  #retry(call: ScheduledCall, delayMs: number, status: number | undefined): void {
    this.#events.emit('retry', { key: call.key as K, attempt: call.attempt, delayMs, status })
    if (delayMs === 0) {
      this.#enqueue(call)
      return
    }
    const { time } = this.#options
    const { signal } = call
    const stop = () => {
      time.clearTimeout(timer)
      this.#delayed.delete(call)
      if (signal !== undefined) {
        removeAbortListener(signal, onAbort)
      }
    }
    const timer = time.setTimeout(() => {
      stop()
      this.#enqueue(call)
    }, delayMs)
    const onAbort = () => {
      stop()
      this.#giveUp(call, abortError(signal as AbortSignalLike, false))
    }
    if (signal !== undefined) {
      addAbortListener(signal, onAbort)
    }
    this.#delayed.set(call, stop)
  }

  /** Blocks a key for all processes. Here it pauses at once. */
  async #block(key: unknown, status: number, durationMs: number): Promise<void> {
    const { limiter } = this.#options
    const queue = this.#queueOf(key)
    queue.pause(durationMs, undefined)
    let applied: ClientEvents['block']['applied'] = false
    let error: TollgateError | undefined
    try {
      applied = await limiter.block(key, `${durationMs}ms`)
      if (applied !== false) {
        // An earlier block may end later.
        const decision = await limiter.peek(key, 1)
        this.#queueOf(key).pause(Math.max(durationMs, decision.retryAfterMs ?? 0), decision)
      }
    } catch (cause) {
      error = cause as TollgateError
    }
    this.#events.emit('block', { key: key as K, status, durationMs, applied, error })
  }
}

/** The same text for equal keys. */
function nameOfKey(key: unknown): string {
  try {
    return JSON.stringify(key) ?? String(key)
  } catch {
    throw invalid('INVALID_KEY', 'key', 'must be a key of the limiter', key)
  }
}

function closedError(): TollgateError {
  return new TollgateError('CLOSED', 'the client has been closed')
}

/** Aborts a controller with a signal. Returns a function that ends this. */
function linkSignal(signal: AbortSignalLike | undefined, controller: AbortController): () => void {
  if (signal === undefined) {
    return () => {}
  }
  const onAbort = () => controller.abort(signal.reason)
  if (signal.aborted) {
    onAbort()
    return () => {}
  }
  addAbortListener(signal, onAbort)
  return () => removeAbortListener(signal, onAbort)
}

function settle({ resolve, reject }: ScheduledCall, result: AttemptResult): void {
  if (result.isError) {
    reject(result.error)
  } else {
    resolve(result.value)
  }
}

/** Frees the connection of a response that nobody reads. */
function discard(result: AttemptResult): void {
  const body = result.isError ? undefined : (result.value as { readonly body?: unknown } | null | undefined)?.body
  const { cancel } = (body ?? {}) as { readonly cancel?: () => Promise<void> }
  if (typeof cancel === 'function') {
    Promise.resolve(cancel.call(body)).catch(() => {})
  }
}
