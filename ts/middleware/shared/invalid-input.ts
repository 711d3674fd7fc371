import { TollgateError } from '../../api/error.js'
import type { InvalidInputAnswer, Message } from './options.js'

/**
 * A function of the user's that is asked about a request.
 *
 * @hidden
 */
export type Asking = 'skip' | 'key' | 'cost'

/** What JavaScript itself throws where a value is not as a function expects it, by name: realms have classes of their own. */
const NATIVE_ERRORS: readonly unknown[] = ['TypeError', 'RangeError', 'SyntaxError', 'URIError']

/**
 * Whether an error tells that no key or cost can be made of a request.
 *
 * An error with a status was made to be answered with it, and one with a cause tells of something that failed behind it,
 * such as the `TypeError` of a `fetch`: both are the user's own.
 *
 * @param asking - The function that threw it; `undefined`, if the limiter did.
 */
export function isInvalidInput(error: unknown, asking: Asking | undefined): boolean {
  if (TollgateError.is(error)) {
    return error.code === 'INVALID_KEY' || error.code === 'INVALID_COST'
  }
  if (asking === undefined || typeof error !== 'object' || error === null) {
    return false
  }
  const { name, status, statusCode, cause } = error as { readonly [property: string]: unknown }
  const isPlain = status === undefined && statusCode === undefined && cause === undefined
  return isPlain && NATIVE_ERRORS.includes(name)
}

/**
 * Why no key or cost could be made, for a warning. What JavaScript's own errors say is left out, as it may quote the
 * request: the place is told instead.
 */
export function reasonFor(error: unknown, asking: Asking | undefined): string {
  if (TollgateError.is(error)) {
    return error.message
  }
  const { name, message, stack = '' } = error as Error
  const frames = stack.slice(stack.indexOf(message) + message.length)
  const place = /^\s+(at .+)$/m.exec(frames)?.[1]
  return `${asking} threw a ${name}${place === undefined ? '' : ` ${place}`}`
}

/** Whether an answer of `onInvalidInput` names what a request is to be decided by. */
export function isReplacement(answer: unknown): answer is InvalidInputAnswer<unknown> {
  return typeof answer === 'object' && answer !== null && ('key' in answer || 'cost' in answer)
}

/** The status and the body that a request is answered with, by what `onInvalidInput` says of it. */
export function answerOf(answer: unknown): { readonly status: number; readonly message: Message } {
  const { statusCode, message } = (answer ?? {}) as InvalidInputAnswer<unknown>
  return { status: statusCode ?? 400, message: message ?? 'Bad Request' }
}
