import { TollgateError } from '../../api/error.js'
import type { AnyCost, InvalidInputAnswer } from './options.js'

/**
 * A user's function that the limiter calls for a request.
 *
 * @hidden
 */
export type RequestFunction = 'skip' | 'key' | 'cost' | 'tier'

/** The errors that JavaScript throws for an unexpected value, by name, because each realm has its own classes. */
const NATIVE_ERRORS: readonly unknown[] = ['TypeError', 'RangeError', 'SyntaxError', 'URIError']

/**
 * Whether an error means that no key or cost can be made from a request. An error with a status was made to be the
 * answer, and one with a cause reports a failure behind it: both are the user's own errors.
 *
 * @param thrownBy - The function that threw it; `undefined` if the limiter did.
 */
export function isInvalidInput(error: unknown, thrownBy: RequestFunction | undefined): boolean {
  if (TollgateError.is(error)) {
    return error.code === 'INVALID_KEY' || error.code === 'INVALID_COST'
  }
  if (thrownBy === undefined || typeof error !== 'object' || error === null) {
    return false
  }
  const { name, status, statusCode, cause } = error as { readonly [property: string]: unknown }
  const isPlain = status === undefined && statusCode === undefined && cause === undefined
  return isPlain && NATIVE_ERRORS.includes(name)
}

/** The reason for a warning. Of a native error it has the place, and not the message, which may quote the request. */
export function reasonFor(error: unknown, thrownBy: RequestFunction | undefined): string {
  if (TollgateError.is(error)) {
    return error.message
  }
  const { name, message, stack = '' } = error as Error
  const frames = stack.slice(stack.indexOf(message) + message.length)
  const place = /^\s+(at .+)$/m.exec(frames)?.[1]
  return `${thrownBy} threw a ${name}${place === undefined ? '' : ` ${place}`}`
}

/** Whether the return value of `onInvalidInput` replaces the request's key or cost. */
export function isReplacement(answer: unknown): answer is InvalidInputAnswer<unknown, AnyCost> {
  return typeof answer === 'object' && answer !== null && ('key' in answer || 'cost' in answer)
}
