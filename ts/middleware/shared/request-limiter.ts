import type { Decision } from '../../api/decision.js'
import { TollgateError } from '../../api/error.js'
import { wholeNumber } from '../../input/options.js'
import { reasonOf, Warnings } from '../../platform/warning.js'
import { type HeaderFields, headerFieldsOf, type SetField, writeRetryAfter } from './headers.js'
import { type Asking, answerOf, isInvalidInput, isReplacement, reasonFor } from './invalid-input.js'
import { ipKey } from './ip-key.js'
import {
  type CheckedOptions,
  checkedOptions,
  type InvalidInputAnswer,
  type Message,
  type NotAllowed,
  type RequestEnd,
} from './options.js'

/** What the core is told of a request. `A` is what a framework passes of it, and users' functions are called with. */
export interface Host<A extends readonly unknown[]> {
  /** The module, for warnings. */
  readonly name: string
  /** The client's address as the framework tells it, if it can. */
  readonly addressOf?: (...args: A) => string | undefined
  /** Whether a request came through a proxy that the framework was not told to trust. */
  readonly isProxyUntrusted?: (...args: A) => boolean
  /** Leaves a decision in a request. */
  mark(property: string, decision: Decision, ...args: A): void
  /** What a request with a decision waits for before it goes on; asked before the decision is. */
  readonly goesOn?: () => Promise<void>
}

/** What is to become of a request. */
export type Outcome =
  /** It goes on; without a decision, if it is not limited. */
  | { readonly what: 'pass'; readonly decision: Decision | undefined }
  /** It is refused. */
  | { readonly what: 'refuse'; readonly decision: NotAllowed }
  /** No key or cost could be made of it: it is answered, unless `onInvalidInput` has done so by itself. */
  | {
      readonly what: 'invalid'
      readonly decision: undefined
      readonly status: number
      readonly message: Message
      /** What `onInvalidInput` returned. */
      readonly answer: unknown
    }
  /** No decision could be made. */
  | { readonly what: 'fail'; readonly error: unknown }

const PASSED: Outcome = { what: 'pass', decision: undefined }

/**
 * Decides on requests: the part of a middleware that no framework is needed for.
 *
 * An adapter asks {@link check}, writes the fields, and does what the outcome says.
 */
export class Gate<A extends readonly unknown[]> {
  readonly #options: CheckedOptions<A>
  readonly #host: Host<A>
  readonly #fields: HeaderFields | undefined
  readonly #warnings = new Warnings()
  /** Whether a failure has somebody who is told. */
  readonly #hasOnError: boolean

  /**
   * @param where - The middleware's function, for messages.
   * @throws {TollgateError} `INVALID_OPTION`
   */
  constructor(where: string, options: unknown, host: Host<A>) {
    this.#options = checkedOptions(where, options, host.addressOf !== undefined)
    this.#host = host
    this.#hasOnError = (options as { readonly onError?: unknown }).onError !== undefined
    const { headers, limiter } = this.#options
    this.#fields = headers === false ? undefined : headerFieldsOf(headers, limiter.policies)
  }

  /** The status of a refusal. */
  get statusCode(): number {
    return this.#options.statusCode
  }

  /** Whether requests may get back what they took. */
  get refunds(): boolean {
    return this.#options.refundWhen !== undefined
  }

  /**
   * Decides on a request. What `onRefused` and `onInvalidInput` throw is passed on; whatever else fails is an outcome.
   *
   * @param given - What `onInvalidInput` has given in place of the request's own key and cost.
   */
  async check(args: A, given?: InvalidInputAnswer<unknown>): Promise<Outcome> {
    const { limiter, key, cost, skip, onRefused, observe, requestProperty } = this.#options
    const goesOn = this.#host.goesOn?.()
    let decision: Decision
    let asking: Asking | undefined
    try {
      if (skip !== undefined && given === undefined) {
        asking = 'skip'
        if (await skip(...args)) {
          return PASSED
        }
      }
      // Awaited here: an async function of its own would take more turns of the microtask queue.
      asking = 'key'
      let who = given?.key
      if (given === undefined || !('key' in given)) {
        who = key === undefined ? this.#addressKey(args) : await key(...args)
      }
      asking = 'cost'
      let units = given?.cost
      if (given === undefined || !('cost' in given)) {
        units = typeof cost === 'function' ? await cost(...args) : cost
      }
      asking = undefined
      decision = await limiter.take(who, units === undefined ? undefined : wholeNumber('INVALID_COST', 'cost', units))
      this.#host.mark(requestProperty, decision, ...args)
    } catch (error) {
      if (isInvalidInput(error, asking)) {
        return this.#invalid(error, asking, args, given !== undefined)
      }
      if (!observe || this.#hasOnError) {
        return { what: 'fail', error }
      }
      this.#warnings.once('TOLLGATE_OBSERVE_FAILED', `a request passed without a decision: ${reasonOf(error)}`)
      return PASSED
    }
    if (goesOn !== undefined) {
      await goesOn
    }
    if (decision.allowed) {
      return { what: 'pass', decision }
    }
    if (onRefused !== undefined) {
      await onRefused(...args, decision)
    }
    return observe ? { what: 'pass', decision } : { what: 'refuse', decision }
  }

  /** Writes the fields that tell of an outcome. */
  write(outcome: Outcome, set: SetField): void {
    if (this.#fields === undefined || outcome.what === 'fail' || outcome.decision === undefined) {
      return
    }
    const { decision } = outcome
    if (decision.source !== 'none') {
      this.#fields.write(decision, set)
    }
    if (outcome.what === 'refuse') {
      writeRetryAfter(decision, set)
    }
  }

  /** What a refused client is told. */
  async messageFor(decision: NotAllowed, args: A): Promise<Message> {
    const { message } = this.#options
    return typeof message === 'function'
      ? await (message as (...args: unknown[]) => Message | Promise<Message>)(...args, decision)
      : message
  }

  /** Gives back what a request took, if it ended as `refundWhen` says. To be called once for a decision. */
  async settle(decision: Decision, end: RequestEnd, args: A): Promise<void> {
    const { limiter } = this.#options
    try {
      if (decision.allowed && (await this.#isRefunded(end, args))) {
        await limiter.refund(decision)
      }
    } catch (error) {
      // The request is over: there is nobody to answer.
      this.#warnings.once('TOLLGATE_REFUND_FAILED', `a request's units were not given back: ${reasonOf(error)}`)
    }
  }

  /** What becomes of a request of which no key or cost can be made. */
  async #invalid(error: unknown, asking: Asking | undefined, args: A, isAgain: boolean): Promise<Outcome> {
    const { onInvalidInput, observe } = this.#options
    let answer: unknown
    if (onInvalidInput !== undefined && !isAgain) {
      answer = await onInvalidInput(error, ...args)
      if (isReplacement(answer)) {
        return this.check(args, answer)
      }
    } else {
      const became = observe ? 'passed, and would be answered with 400' : 'was answered with 400'
      const advice =
        'Return a key and a cost for every request. Later ones are not warned of: onInvalidInput hears of each, and may ' +
        'give a key or another answer'
      this.#warnings.once(
        'TOLLGATE_INVALID_INPUT',
        `${this.#host.name}: a request ${became}: ${reasonFor(error, asking)}\n${advice}`,
      )
    }
    return observe ? PASSED : { what: 'invalid', decision: undefined, ...answerOf(answer), answer }
  }

  #addressKey(args: A): string {
    const { addressOf, isProxyUntrusted } = this.#host
    if (!this.#warnings.has('TOLLGATE_UNTRUSTED_PROXY') && isProxyUntrusted?.(...args)) {
      this.#warnings.once(
        'TOLLGATE_UNTRUSTED_PROXY',
        'a request has X-Forwarded-For, and the framework is not told to trust a proxy: behind one, all its clients ' +
          'share one limit\nSet what your framework calls it (trust proxy, trustProxy, proxy), or give a key function',
      )
    }
    return ipKey(addressOf?.(...args))
  }

  async #isRefunded(end: RequestEnd, args: A): Promise<boolean> {
    const { refundWhen } = this.#options
    if (typeof refundWhen === 'function') {
      return await (refundWhen as (...args: unknown[]) => boolean | Promise<boolean>)(...args, end)
    }
    const hasFailed = end.aborted || end.status >= 400
    return hasFailed === (refundWhen === 'failed')
  }
}

/**
 * Gives a failure of the limiter the status by which frameworks answer it: 503. Other errors are the user's own,
 * and stay as they are.
 */
export function withStatus(error: unknown): unknown {
  return TollgateError.is(error) ? Object.assign(error, { status: 503, statusCode: 503 }) : error
}
