/// <reference lib="esnext.disposable" preserve="true" />

import { TollgateError } from '../api/error.js'
import { nameOfKey } from '../input/key-name.js'
import { checkCount, functionOf, invalid } from '../input/options.js'
import { Events } from '../platform/events.js'
import { HAS_REQUEST_IO } from '../platform/request-io.js'
import { inThisContext } from '../platform/root-context.js'
import type { AttemptResult } from './answer.js'
import { Attempt, isFailure, type ReadResult } from './attempt.js'
import {
  type CheckedCall,
  type CheckedClientOptions,
  clientOptionsOf,
  closeTimeoutOf,
  eventNameOf,
  scheduleOptionsOf,
} from './checked-options.js'
import { DelayedCalls } from './delayed-calls.js'
import { abortedError, closedError } from './errors.js'
import { fetchCallOf } from './fetch-call.js'
import { holdBody } from './held-body.js'
import { Hooks } from './hooks.js'
import { KeyQueue } from './key-queue.js'
import { dropLast, keepLast, settle, settleWithoutTurn } from './last-result.js'
import { type MappedCall, mapCalls } from './map.js'
import { MapWaits } from './map-waits.js'
import type {
  CallArguments,
  CallOptions,
  ClientEvents,
  ClientOptions,
  ClientStatus,
  ClosedCalls,
  CloseOptions,
  FetchArguments,
  FetchFunction,
  RunContext,
} from './options.js'
import { peekRefusalOf } from './refusal.js'
import { backoffMs } from './retry.js'
import { RetryBudget } from './retry-budget.js'
import { type CallKind, FIRST_ATTEMPT, type ScheduledCall } from './scheduled-call.js'
import { eitherSignal, signalsIn } from './signals.js'
import { settleTurn, type Turn, turnsOf } from './turn.js'
import { UsageReader, usedUnits } from './usage.js'

/**
 * Sends calls to a service that limits its callers.
 *
 * Each call waits for its turn by the limiter: under rates for its slot (`wait`), under `concurrency` for a permit
 * (`acquire`), which it holds while it runs, and under windows for units (`take`). Over Redis all processes share the
 * turns. Within a process the calls of a key start by priority, then in the order in which they were made.
 *
 * If the server refuses a call (429, 403 or 503 with a time, `RESOURCE_EXHAUSTED` of gRPC), the key is blocked in the
 * limiter for the time that the server names, so that all processes pause. A block never shortens another one. Then
 * the call is sent again, up to `retries`; after other failures only if it is idempotent.
 *
 * @typeParam K - The limiter's keys.
 * @typeParam N - The names of its limits.
 * @typeParam T - The names of its tiers.
 * @typeParam C - The cost of its calls: a number, or an object by meter.
 *
 * @example
 * const limiter = new RateLimiter(gcra({ limit: 50, period: '1s' }), { store: 'redis://localhost', prefix: 'out' })
 * const api = new OutgoingClient({ limiter })
 * const response = await api.fetch('https://api.example.com/items')
 */
export class OutgoingClient<K = string, N extends string = string, T extends string = never, C = number> {
  readonly #options: CheckedClientOptions
  readonly #events = new Events<ClientEvents<K, C>>()
  readonly #hooks: Hooks
  readonly #budget: RetryBudget
  readonly #ask
  readonly #peek
  readonly #queues = new Map<string, KeyQueue>()
  readonly #delayed: DelayedCalls
  readonly #running = new Set<Attempt>()
  readonly #mapWaits = new MapWaits(() => this.#queued < this.#options.maxQueued || this.#isAbandoned)
  /** Functions that stop the running calls of `map`. */
  readonly #maps = new Set<() => void>()
  #queued = 0
  #sequence = 0
  #isClosed = false
  /** Whether `close` waits no longer. */
  #isAbandoned = false
  #notStarted = 0
  #interrupted = 0
  #onDrained: (() => void)[] = []

  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options: ClientOptions<K, N, T, C>) {
    checkCount(arguments.length, 1, 'OutgoingClient takes an object of options')
    this.#options = clientOptionsOf(options)
    this.#ask = turnsOf(this.#options.limiter, this.#options.time, this.#options.usageOf !== undefined)
    this.#peek = peekRefusalOf(this.#options.limiter)
    this.#delayed = new DelayedCalls(this.#options.time, (call, error) => this.#giveUp(call, error))
    this.#budget = new RetryBudget(this.#options.retries.budget)
    this.#hooks = new Hooks(this.#options, (event) => {
      this.#events.emit('hookError', event as ClientEvents<K>['hookError'])
    })
  }

  /**
   * Runs a function at its turn, and resolves to its result. A permit is held until the promise of the function
   * settles.
   *
   * Rejects with the error of the function; with `WAIT_TOO_LONG` if there is no first turn within `maxWait`,
   * `OVERLOADED` if `maxQueued` calls wait already, `ATTEMPT_TIMEOUT`, `ABORTED`, `CLOSED`, and with the errors of the
   * limiter. `attempts` of these errors tells whether the function has run.
   *
   * A result or an error is an HTTP answer if it has a `status` or `statusCode`, and `headers`, itself or in its
   * `response`: those of `fetch`, undici, axios, got and most SDKs have. An error may have one as its `cause`.
   *
   * @param run - Receives the signal of the call, the number of the attempt, and the decision.
   *
   * @example
   * const { data } = await api.schedule(({ signal }) => axios.get(url, { signal }), { key: 'tenant:7', priority: 1 })
   */
  async schedule<R>(
    run: (context: RunContext<N>) => R,
    ...[options]: CallArguments<C, CallOptions<K, T, C>>
  ): Promise<Awaited<R>> {
    checkCount(arguments.length, 2, 'schedule takes a function and an object of options')
    functionOf('run', run)
    const call = scheduleOptionsOf('schedule', options, { ...this.#options, isIdempotent: false })
    return (await this.#schedule(run as (context: RunContext) => unknown, call, {})) as Awaited<R>
  }

  /**
   * Calls a function with each value by {@link schedule}, and resolves to the results in the order of the values. At
   * most 64 of its calls wait for their turn at a time, and further ones while `maxQueued` calls wait, so there may be
   * any number of values.
   *
   * Rejects with the first error, also with that of the values. Then it takes no further value, calls that have not
   * started do not start, and the signals of those that run are aborted. After `close` it takes no further value, and
   * rejects with `CLOSED` when its calls have ended; their number is the error's `attempts`.
   *
   * @param values - Any iterable; an asynchronous one is read as turns come.
   * @param run - Receives the value, its index, and the argument of a scheduled function.
   * @param options - The options of the calls, or a function of a value and its index that returns them.
   *
   * @example
   * const users = await api.map(ids, (id, _, { signal }) => load(id, { signal }), { key: 'users' })
   */
  async map<V, R>(
    values: Iterable<V> | AsyncIterable<V>,
    run: (value: V, index: number, context: RunContext<N>) => R,
    ...[options]: CallArguments<C, CallOptions<K, T, C> | ((value: V, index: number) => CallOptions<K, T, C>)>
  ): Promise<Awaited<R>[]> {
    checkCount(arguments.length, 3, 'map takes values, a function and options')
    functionOf('run', run)
    if (this.#isClosed) {
      throw closedError(0)
    }
    const makeCall: MappedCall<V, Awaited<R>> = async (value, index, also, onStart): Promise<Awaited<R>> => {
      const own = typeof options === 'function' ? options(value, index) : options
      const call = scheduleOptionsOf('map', own, { ...this.#options, isIdempotent: false })
      const start = (context: RunContext) => {
        onStart()
        return run(value, index, context as RunContext<N>)
      }
      const signals = signalsIn([call.signal, also])
      while (this.#mapWaits.isFullFor(signals)) {
        await this.#mapWaits.wait(signals)
      }
      const result = this.#schedule(start, call, { also, isOfMap: true })
      // A call that is rejected leaves the room to the next one.
      this.#mapWaits.offer()
      return (await result) as Awaited<R>
    }
    return mapCalls(values, makeCall, this.#maps).finally(() => this.#checkDrained())
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
    ...[options]: CallArguments<C, CallOptions<K, T, C> | ((...args: Args) => CallOptions<K, T, C>)>
  ): (...args: Args) => Promise<R> {
    checkCount(arguments.length, 2, 'wrap takes a function and options')
    functionOf('run', run)
    return async (...args) => {
      const own = typeof options === 'function' ? options(...args) : options
      return this.schedule(() => run(...args), ...([own] as CallArguments<C, CallOptions<K, T, C>>))
    }
  }

  /**
   * {@link schedule} for a request of `fetch`. Its key is the host of the URL unless one is given. It is idempotent if
   * its method is (RFC 9110), or if it has a header `Idempotency-Key`. A request whose body is a stream is not sent
   * again.
   *
   * Resolves to the response, also to the last one that was refused. A permit is held until the body of the response
   * has ended, unless `holdUntil` says otherwise: when it was read, was cancelled or has failed, or when nobody has
   * read from it for a minute. Up to 64 kB are read ahead. A response that is not the platform's `Response` has no
   * body here.
   *
   * @param input - As for the platform's function.
   * @param init - As for the platform's function. Its `signal` also ends the wait, as the one of `options` does.
   */
  async fetch(
    input: Parameters<FetchFunction>[0],
    ...[init, options]: FetchArguments<K, T, C>
  ): Promise<Awaited<ReturnType<FetchFunction>>> {
    checkCount(arguments.length, 3, 'fetch takes a URL or a request, its options, and those of the call')
    const { host, signal, isIdempotent, isRepeatable, send } = fetchCallOf(input, init, this.#options.fetch)
    const { key = host } = this.#options
    const call = scheduleOptionsOf('fetch', options, { ...this.#options, key, isIdempotent })
    const run = ({ signal }: RunContext) => send(signal)
    const answer = await this.#schedule(run, call, { also: signal, isRepeatable, isFetch: true })
    return answer as Awaited<ReturnType<FetchFunction>>
  }

  /**
   * Ends the pause of a key in this client, for instance after `unblock` of the limiter. Waiting calls ask the limiter
   * again at once, and pause again if it still refuses them. Without this, and on workerd, they ask within 5 s.
   *
   * @param key - Default: that of the client.
   */
  resume(key?: K): void {
    checkCount(arguments.length, 1, 'resume takes a key')
    const own = key ?? this.#options.key
    if (own === undefined) {
      throw invalid('INVALID_KEY', 'key', 'must be given, to resume or to the client', own)
    }
    this.#queues.get(nameOfKey(own))?.resume()
  }

  /** The numbers of waiting and running calls. */
  status(): ClientStatus {
    checkCount(arguments.length, 0, 'status takes no arguments')
    return { queued: this.#queued, running: this.#running.size, isClosed: this.#isClosed }
  }

  /** Calls a function with each event of a kind. The returned function removes it. */
  on<Name extends keyof ClientEvents<K, C>>(
    name: Name,
    listener: (event: ClientEvents<K, C>[Name]) => void,
  ): () => void {
    checkCount(arguments.length, 2, 'on takes the name of an event and a function')
    return this.#events.on(eventNameOf(name), functionOf('listener', listener))
  }

  /**
   * Rejects further calls with `CLOSED`, and resolves when all earlier calls and their retries have ended. A running
   * `map` takes no further value. May be called again. It does not close the limiter.
   *
   * @returns The calls that it did not wait for; without `timeout` there are none.
   */
  async close(options?: CloseOptions): Promise<ClosedCalls> {
    const timeoutMs = closeTimeoutOf(options)
    this.#isClosed = true
    for (const stop of [...this.#maps]) {
      stop()
    }
    if (!this.#isDrained) {
      const { time } = this.#options
      const timer = timeoutMs === undefined ? undefined : time.setTimeout(() => this.#abandonAll(), timeoutMs)
      await new Promise<void>((resolve) => this.#onDrained.push(resolve))
      time.clearTimeout(timer)
    }
    return { notStarted: this.#notStarted, interrupted: this.#interrupted }
  }

  /** {@link close}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** A function that ignores its signal does not keep the client open. */
  get #isDrained(): boolean {
    return this.#queued === 0 && ((this.#running.size === 0 && this.#maps.size === 0) || this.#isAbandoned)
  }

  #checkDrained(): void {
    if (this.#isClosed && this.#isDrained) {
      for (const resolve of this.#onDrained.splice(0)) {
        resolve()
      }
    }
  }

  #abandonAll(): void {
    this.#isAbandoned = true
    this.#notStarted += this.#mapWaits.wakeAll()
    for (const queue of [...this.#queues.values()]) {
      queue.close()
    }
    this.#delayed.close()
    this.#interrupted += this.#running.size
    for (const attempt of this.#running) {
      attempt.abort(closedError(attempt.number))
    }
    this.#checkDrained()
  }

  async #schedule(run: ScheduledCall['run'], checked: CheckedCall, how: CallKind): Promise<unknown> {
    if (how.isOfMap === true ? this.#isAbandoned : this.#isClosed) {
      throw closedError(0)
    }
    const { maxQueued, time, holdsBodies, ageingMs, retries } = this.#options
    const signals = signalsIn([checked.signal, how.also])
    const aborted = signals.find((signal) => signal.aborted)
    if (aborted !== undefined) {
      throw abortedError(aborted, 0)
    }
    if (this.#queued >= maxQueued) {
      const message = `${maxQueued} calls wait already; raise maxQueued, or make fewer calls`
      throw new TollgateError('OVERLOADED', message, { attempts: 0 })
    }
    const sequence = this.#sequence++
    const queue = this.#queueOf({ key: checked.key, sequence })
    const now = time.now()
    // From here on the call ends by `onEnd`, which unlinks its signals.
    const { signal, unlink } = eitherSignal(checked.signal, how.also)
    return new Promise((resolve, reject) => {
      this.#queued++
      this.#budget.countCall(now)
      queue.add({
        ...checked,
        signal,
        // Its turn may come in the context of another call.
        run: inThisContext(run),
        holdsBody: how.isFetch === true && holdsBodies,
        bodySignals: how.isFetch === true ? signals : [],
        sequence,
        rank: now - checked.priority * ageingMs,
        resolve,
        reject,
        onEnd: unlink,
        ...FIRST_ATTEMPT,
        maxRetries: how.isRepeatable === false ? 0 : retries.limit,
        waitsSince: now,
      })
    })
  }

  #leaveQueue(): void {
    this.#queued--
    this.#mapWaits.offer()
  }

  #enqueue(call: ScheduledCall): void {
    call.waitsSince = this.#options.time.now()
    this.#queueOf(call).add(call)
  }

  /** The queue of a key. Where I/O belongs to one request, each call has its own: no other request may start it. */
  #queueOf({ key, sequence }: Pick<ScheduledCall, 'key' | 'sequence'>): KeyQueue {
    const name = nameOfKey(key) + (HAS_REQUEST_IO ? sequence : '')
    const known = this.#queues.get(name)
    if (known !== undefined) {
      return known
    }
    const queue: KeyQueue = new KeyQueue(key, {
      ask: this.#ask,
      peek: this.#peek,
      time: this.#options.time,
      start: (call, turn) => void this.#run(call, turn),
      giveUp: (call, error) => this.#giveUp(call, error),
      // A queue may end after another one of its key has begun, because it was still asking the store.
      onIdle: () => this.#queues.get(name) === queue && this.#queues.delete(name),
    })
    this.#queues.set(name, queue)
    return queue
  }

  #giveUp(call: ScheduledCall, error: unknown): void {
    const attempts = call.attempt - 1
    this.#leaveQueue()
    if (this.#isAbandoned) {
      this.#notStarted += attempts === 0 ? 1 : 0
      this.#interrupted += attempts === 0 ? 0 : 1
    }
    this.#events.emit('giveUp', { key: call.key as K, error, attempts })
    call.onEnd()
    settleWithoutTurn(call, error)
    this.#checkDrained()
  }

  async #run(call: ScheduledCall, turn: Turn): Promise<void> {
    const { time, usageOf } = this.#options
    const { attempt: number, priority } = call
    const key = call.key as K
    const attempt = new Attempt(call, turn, time)
    this.#leaveQueue()
    dropLast(call)
    this.#running.add(attempt)
    this.#events.emit('start', { key, priority, attempt: number, waitedMs: attempt.startedAt - call.waitsSince })
    const ended = await attempt.run((result) => this.#hooks.read(call, result))
    const isRetried = this.#isRetried(call, ended)
    const isSuccess = !isFailure(ended)
    const { result } = ended
    const usage = isSuccess && !result.isError && usageOf !== undefined ? UsageReader.of(result.value) : undefined
    const end = (isSuccess: boolean) => {
      const { status } = ended.answer
      const durationMs = time.now() - attempt.startedAt
      this.#events.emit('end', { key, attempt: number, durationMs, isSuccess, status })
      if (!isRetried) {
        call.onEnd()
      }
      const onEnded = () => {
        this.#running.delete(attempt)
        this.#checkDrained()
      }
      return attempt.end(() => {
        if (usageOf === undefined) {
          turn.end()
          onEnded()
          return undefined
        }
        const used = () => usedUnits(call, ended.answer, usage, usageOf)
        return settleTurn(turn, time, used, (settled) => {
          const event = { key, attempt: number, cost: call.cost, ...settled }
          this.#events.emit('charge', event as ClientEvents<K, C>['charge'])
          onEnded()
        })
      })
    }
    if (!isRetried) {
      attempt.linkBody(result)
    }
    const needsBody = turn.signal !== undefined || usage !== undefined
    if (!isRetried && !result.isError && call.holdsBody && needsBody) {
      const { signal } = attempt
      const value = holdBody(result.value, { time, signal, usage, onEnd: (isWhole) => end(isSuccess && isWhole) })
      this.#finish(call, ended, { isError: false, value })
    } else {
      void end(isSuccess)
      this.#finish(call, ended, isRetried ? undefined : result)
    }
  }

  /** Whether a call is sent again. Without a retry the caller gets the answer of the server. */
  #isRetried(call: ScheduledCall, ended: ReadResult): boolean {
    const { delayMs = 0, isRefusal } = ended.answer
    const isAborted = call.signal?.aborted === true || this.#isAbandoned
    if (call.attempt > call.maxRetries || delayMs > call.maxWaitMs || isAborted || !isFailure(ended)) {
      return false
    }
    // The pause after a refusal bounds its retries.
    return this.#hooks.mayRetry(call, ended) && (isRefusal || this.#budget.take(this.#options.time.now()))
  }

  /** Pauses the key if the server says so, and settles the call; or sends it again if `settled` is `undefined`. */
  #finish(call: ScheduledCall, { result, answer }: ReadResult, settled: AttemptResult | undefined): void {
    const { retries, pauseWhenEmpty } = this.#options
    const { status, isRefusal } = answer
    const backoff = backoffMs(call.attempt, retries)
    const emptyMs = pauseWhenEmpty && !result.isError ? answer.emptyMs : undefined
    const pauseMs = isRefusal ? (answer.delayMs ?? backoff) : emptyMs
    if (pauseMs !== undefined) {
      void this.#block(call, status, pauseMs)
    }
    if (settled !== undefined) {
      settle(call, settled)
    } else {
      keepLast(call, result, this.#options.time)
      call.attempt++
      call.pausedMs = isRefusal ? (pauseMs ?? 0) : 0
      this.#queued++
      // A blocked key makes the call wait in any case.
      const delayMs = isRefusal ? 0 : Math.max(backoff, answer.delayMs ?? 0)
      this.#events.emit('retry', { key: call.key as K, attempt: call.attempt, delayMs, status })
      if (delayMs === 0) {
        this.#enqueue(call)
      } else {
        this.#delayed.add(call, delayMs, () => this.#enqueue(call))
      }
    }
  }

  /** Blocks a key for all processes. In this one it pauses at once. */
  async #block(call: ScheduledCall, status: number | undefined, durationMs: number): Promise<void> {
    const { key } = call
    this.#queueOf(call).pause(durationMs, call, undefined)
    let applied: ClientEvents['block']['applied'] = false
    let error: TollgateError | undefined
    try {
      applied = await this.#options.limiter.block(key, `${durationMs}ms`)
      if (applied !== false) {
        // An earlier block may end later.
        const { decision, pauseMs } = await this.#peek(key, call)
        this.#queueOf(call).pause(Math.max(durationMs, pauseMs), call, decision)
      }
    } catch (cause) {
      error = cause as TollgateError
    }
    this.#events.emit('block', { key: key as K, status, durationMs, applied, error })
  }
}
