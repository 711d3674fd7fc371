import type { Decision, NotAllowed } from '../../api/decision.js'
import { TollgateError } from '../../api/error.js'
import { plainUnitsOf } from '../../api/metered-units.js'
import type { AbortSignalLike, WaitingLimiter } from '../../api/wait.js'
import { reasonOf, Warnings } from '../../platform/warning.js'
import { isCountedAgain } from './counted-requests.js'
import { type ForwardedRequest, proxyMistake } from './forwarded.js'
import { type HeaderWriter, headerWriterFor, itemNameOf, type SetHeader, writeRetryAfter } from './headers.js'
import { isInvalidInput, isReplacement, type RequestFunction, reasonFor } from './invalid-input.js'
import { ipKey } from './ip-key.js'
import { withoutLongStrings } from './long-key.js'
import {
  type AnyCost,
  type CheckedOptions,
  checkedOptions,
  type HeaderForm,
  type InvalidInputAnswer,
  type Message,
  type RequestEnd,
} from './options.js'
import {
  IMPOSSIBLE_MESSAGE,
  IMPOSSIBLE_STATUS,
  invalidInputResponse,
  type OwnResponse,
  REFUSAL_MESSAGE,
  refusalResponse,
  STORE_FAILURE_MESSAGE,
} from './responses.js'
import { isStoreFailure } from './store-failure.js'

/** A framework for the limiter. `A` is the arguments that it passes for a request, also to users' functions. */
export interface FrameworkAdapter<A extends readonly unknown[]> {
  /** The module's name, for warnings. */
  readonly name: string
  /** The names of options that only this framework has. */
  readonly optionNames?: readonly string[]
  /** Whether requests are answered with HTTP statuses: warnings name these. Default: `true`. */
  readonly isHttp?: boolean
  /** Whether the limiter of the options may have a `concurrency` policy: its `take` and `wait` then get permits. */
  readonly takesPermits?: boolean
  /** Throws if a request cannot be limited. It is called after `skip`, before the request is counted. */
  readonly checkRequest?: (...args: A) => void
  /** The key that the limiter counts in place of a text that `key` has made. */
  readonly scopedKey?: (key: string, ...args: A) => string
  readonly addressOf?: (...args: A) => string | undefined
  /** The parts of a request that show whether the framework is configured for its proxies. */
  readonly forwardedOf?: (...args: A) => Omit<ForwardedRequest, 'client'>
  /** The framework's object for a request. Default: the first of the arguments. */
  readonly requestOf?: (...args: A) => object
  /** Whether a request can no longer get an answer: it was answered, or its client has gone. */
  readonly isGone: (...args: A) => boolean
  /** Whether the client's connection was reset, although {@link isGone} is still false. */
  readonly isReset?: (...args: A) => boolean
  /** Returns a signal that is aborted when the client disconnects. Called only for `delay`. */
  readonly signalOf: (...args: A) => AbortSignalLike
  attach(property: string, decision: Decision, ...args: A): void
  /** Returns a promise to await before the decision. */
  readonly readBarrier?: () => Promise<void>
}

export type RequestOutcome =
  /** The request passes. It has no decision if it is not limited. */
  | { readonly kind: 'pass'; readonly decision: Decision | undefined; readonly tier?: string | undefined }
  | { readonly kind: 'refuse'; readonly decision: NotAllowed; readonly tier?: string | undefined }
  /** No key or cost could be made: the middleware answers, unless `onInvalidInput` has answered already. */
  | {
      readonly kind: 'invalid'
      readonly decision: undefined
      readonly response: OwnResponse
      /** The return value of `onInvalidInput`. */
      readonly answer: unknown
    }
  | { readonly kind: 'fail'; readonly error: unknown }
  /** The request was answered, or its client has gone: it does not reach the route. */
  | { readonly kind: 'gone' }

const PASSED: RequestOutcome = { kind: 'pass', decision: undefined }

const GONE: RequestOutcome = { kind: 'gone' }

/** The part of a middleware without a framework, which calls {@link check}, writes headers, and acts on the outcome. */
export class RequestLimiter<A extends readonly unknown[]> {
  readonly #options: CheckedOptions<A>
  readonly #adapter: FrameworkAdapter<A>
  /** The writers of headers by tier, with the policies for which they were made. */
  readonly #headers = new Map<string | undefined, { readonly policies: object; readonly writer: HeaderWriter }>()
  readonly #warnings = new Warnings()
  readonly #hasOnError: boolean

  /** @param where - The name of the middleware's function, for messages. */
  constructor(where: string, options: unknown, adapter: FrameworkAdapter<A>) {
    this.#options = checkedOptions(where, options, adapter)
    this.#adapter = adapter
    this.#hasOnError = (options as { readonly onError?: unknown }).onError !== undefined
  }

  get mayRefund(): boolean {
    return this.#options.refundWhen !== undefined
  }

  /**
   * Decides on a request. Errors of `onRefused` and `onInvalidInput` reject; all other errors become an outcome.
   *
   * @param replacement - The key and the cost that `onInvalidInput` has returned in place of the request's own.
   */
  async check(args: A, replacement?: InvalidInputAnswer<unknown, AnyCost>): Promise<RequestOutcome> {
    const { limiter, key, cost, tier, skip, onRefused, observe, requestProperty, hashLongKeys, delayMs } = this.#options
    const { readBarrier, scopedKey } = this.#adapter
    let decision: Decision
    let requestTier: string | undefined
    let running: RequestFunction | undefined
    if (readBarrier !== undefined && replacement === undefined) {
      await readBarrier()
    }
    try {
      if (skip !== undefined && replacement === undefined) {
        running = 'skip'
        if (await skip(...args)) {
          return PASSED
        }
      }
      running = undefined
      this.#adapter.checkRequest?.(...args)
      if (this.#isGone(args)) {
        return GONE
      }
      // Awaited inline: a separate async function would take more ticks of the microtask queue.
      running = 'key'
      let requestKey = replacement?.key
      if (replacement === undefined || !('key' in replacement)) {
        requestKey = key === undefined ? this.#addressKey(args) : await key(...args)
      }
      if (scopedKey !== undefined && typeof requestKey === 'string') {
        requestKey = scopedKey(requestKey, ...args)
      }
      if (hashLongKeys) {
        const shortKey = withoutLongStrings(requestKey)
        // Most keys are not replaced, and need no `await`.
        requestKey = shortKey === requestKey ? requestKey : await shortKey
      }
      running = 'cost'
      let units = replacement?.cost
      if (replacement === undefined || !('cost' in replacement)) {
        units = typeof cost === 'function' ? await cost(...args) : cost
      }
      if (tier !== undefined) {
        running = 'tier'
        requestTier = typeof tier === 'function' ? await tier(...args) : tier
      }
      running = undefined
      // The limiter checks units by meter.
      const checked = this.#options.isMetered || units === undefined ? units : plainUnitsOf('cost', units)
      if (this.#isGone(args)) {
        // While the functions ran.
        return GONE
      }
      if (delayMs === undefined) {
        decision = await limiter.take(
          requestKey,
          typeof checked !== 'object' && tier === undefined ? checked : callOf(checked, requestTier),
        )
      } else {
        const signal = this.#adapter.signalOf(...args)
        const delayed = await this.#delayed(requestKey, checked, requestTier, delayMs, signal)
        if (delayed === undefined) {
          return GONE
        }
        decision = delayed
      }
      this.#adapter.attach(requestProperty, decision, ...args)
      this.#checkCount(args, requestKey, checked ?? 1)
    } catch (error) {
      const isInvalid = isInvalidInput(error, running)
      if ((isInvalid || !observe) && this.#isLost(args, isInvalid)) {
        return observe ? PASSED : GONE
      }
      if (isInvalid) {
        return this.#invalid(error, running, args, replacement !== undefined)
      }
      if (!observe || this.#hasOnError) {
        this.#warnOfFailure(error)
        return { kind: 'fail', error }
      }
      this.#warnings.once('TOLLGATE_OBSERVE_FAILED', `a request passed without a decision: ${reasonOf(error)}`)
      return PASSED
    }
    if (!decision.allowed && onRefused !== undefined) {
      await onRefused(...args, decision)
    }
    if (this.#isGone(args)) {
      await this.refundAtEnd(decision, args, true, undefined)
      return GONE
    }
    if (decision.allowed) {
      return { kind: 'pass', decision, tier: requestTier }
    }
    return { kind: observe ? 'pass' : 'refuse', decision, tier: requestTier }
  }

  write(outcome: RequestOutcome, set: SetHeader): void {
    const { headers } = this.#options
    if (headers === false || !('decision' in outcome) || outcome.decision === undefined) {
      return
    }
    const { decision } = outcome
    if (decision.source !== 'none') {
      this.#writerFor(headers, outcome.tier).write(decision, set)
    }
    if (outcome.kind === 'refuse') {
      writeRetryAfter(decision, set)
    }
  }

  async refusalFor(decision: NotAllowed, args: A): Promise<OwnResponse> {
    const { limiter, message, statusCode, storeFailureStatusCode, problemDetails } = this.#options
    const [status, text] =
      decision.source === 'none'
        ? [storeFailureStatusCode, STORE_FAILURE_MESSAGE]
        : decision.status === 'impossible'
          ? [IMPOSSIBLE_STATUS, IMPOSSIBLE_MESSAGE]
          : [statusCode, REFUSAL_MESSAGE]
    const body =
      typeof message === 'function'
        ? await (message as (...args: unknown[]) => Message | Promise<Message>)(...args, decision)
        : (message ?? text)
    return refusalResponse(decision, status, body, problemDetails, (name, limitCount) => {
      return itemNameOf(name, limitCount, limiter.prefix)
    })
  }

  /** Refunds a request if `refundWhen` says so for its end: see {@link RequestEnd}. Call it once for each decision. */
  async refundAtEnd(decision: Decision, args: A, aborted: boolean, status: number | undefined): Promise<void> {
    const { limiter } = this.#options
    const end = { aborted, status } as RequestEnd
    try {
      if (decision.allowed && this.mayRefund && (await this.#isRefunded(end, args))) {
        await limiter.refund(decision)
      }
    } catch (error) {
      // The request has ended, so the error cannot be answered.
      this.#warnings.once('TOLLGATE_REFUND_FAILED', `a request's units were not given back: ${reasonOf(error)}`)
    }
  }

  /** Whether a request does not reach the route, because it can get no answer. In shadow mode all do. */
  #isGone(args: A): boolean {
    return !this.#options.observe && this.#adapter.isGone(...args)
  }

  /** Whether an error, such as a missing address, was caused by a client that has gone. */
  #isLost(args: A, isInvalid: boolean): boolean {
    const { isGone, isReset } = this.#adapter
    return isGone(...args) || (isInvalid && isReset?.(...args) === true)
  }

  /** Waits for the turn of a request. Resolves to `undefined` if its client disconnects. */
  async #delayed(
    key: unknown,
    cost: AnyCost | undefined,
    tier: string | undefined,
    maxWait: number,
    signal: AbortSignalLike,
  ): Promise<Decision | undefined> {
    const { limiter } = this.#options
    const options = { ...callOf(cost, tier), maxWait, onTooLong: 'resolve', signal } as const
    try {
      // Checked with the options.
      return await (limiter as WaitingLimiter).wait(key, options)
    } catch (error) {
      if (TollgateError.is(error) && error.code === 'ABORTED') {
        return undefined
      }
      throw error
    }
  }

  /** The writer for the policies of a tier. An update replaces these. */
  #writerFor(headers: readonly HeaderForm[], tier: string | undefined): HeaderWriter {
    const { limiter } = this.#options
    const policies = tier === undefined ? limiter.policies : (limiter.tiers?.[tier] ?? limiter.policies)
    const known = this.#headers.get(tier)
    if (known?.policies === policies) {
      return known.writer
    }
    const writer = headerWriterFor(headers, policies, limiter.prefix)
    this.#headers.set(tier, { policies, writer })
    return writer
  }

  async #invalid(
    error: unknown,
    thrownBy: RequestFunction | undefined,
    args: A,
    isRetry: boolean,
  ): Promise<RequestOutcome> {
    const { onInvalidInput, observe, problemDetails } = this.#options
    let answer: unknown
    if (onInvalidInput !== undefined && !isRetry) {
      answer = await onInvalidInput(error, ...args)
      if (isReplacement(answer)) {
        return this.check(args, answer)
      }
    } else {
      const action = `${observe ? 'passed, and would be' : 'was'} ${this.#answered(400)}`
      const advice =
        'Return a key and a cost for every request. Only the first such request is warned of: onInvalidInput is called ' +
        'for each, and may return a key or another answer'
      this.#warnings.once(
        'TOLLGATE_INVALID_INPUT',
        `${this.#adapter.name}: a request ${action}: ${reasonFor(error, thrownBy)}\n${advice}`,
      )
    }
    if (observe) {
      return PASSED
    }
    return { kind: 'invalid', decision: undefined, response: invalidInputResponse(answer, problemDetails), answer }
  }

  #checkCount(args: A, key: unknown, cost: unknown): void {
    if (this.#warnings.has('TOLLGATE_COUNTED_TWICE')) {
      return
    }
    const { name, requestOf } = this.#adapter
    const request = requestOf === undefined ? (args[0] as object) : requestOf(...args)
    if (isCountedAgain(request, this.#options.limiter, key, cost)) {
      this.#warnings.once(
        'TOLLGATE_COUNTED_TWICE',
        `${name}: one limiter counted a request twice, with the same key and cost\nRemove one of its middlewares, or ` +
          'give the route a limiter of its own. If a route should cost more, set its cost',
      )
    }
  }

  /** Warns of an error that the answer does not contain, and that not every framework logs. */
  #warnOfFailure(error: unknown): void {
    if (TollgateError.is(error) && !this.#hasOnError) {
      const status = isStoreFailure(error) ? 503 : 500
      this.#warnings.once(
        'TOLLGATE_NO_DECISION',
        `${this.#adapter.name}: a request was ${this.#answered(status)}: ${error.message}\nOnly the first request with ` +
          `${error.code} is warned of: onError is called for each`,
        error.code,
      )
    }
  }

  #answered(status: number): string {
    return this.#adapter.isHttp === false ? 'refused' : `answered with ${status}`
  }

  #addressKey(args: A): string {
    const { addressOf, forwardedOf } = this.#adapter
    const client = addressOf?.(...args)
    if (forwardedOf !== undefined) {
      const mistake = proxyMistake({ ...forwardedOf(...args), client })
      if (mistake !== undefined) {
        this.#warnings.once(mistake.code, mistake.message)
      }
    }
    return ipKey(client)
  }

  async #isRefunded(end: RequestEnd, args: A): Promise<boolean> {
    const { refundWhen } = this.#options
    if (typeof refundWhen === 'function') {
      return await (refundWhen as (...args: unknown[]) => boolean | Promise<boolean>)(...args, end)
    }
    return !end.aborted && end.status >= 400 === (refundWhen === 'failed')
  }
}

/** The options of a call, without those that are `undefined`. */
function callOf(cost: AnyCost | undefined, tier: string | undefined): { cost?: AnyCost; tier?: string } {
  return { ...(cost !== undefined && { cost }), ...(tier !== undefined && { tier }) }
}
