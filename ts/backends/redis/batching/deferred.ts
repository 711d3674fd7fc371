import type { TollgateError } from '../../../api/error.js'

/** A promise, and what settles it. */
export interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (result: T) => void
  readonly reject: (error: TollgateError) => void
}

let resolveLast: (result: never) => void
let rejectLast: (error: TollgateError) => void

/**
 * One function for all promises: one for each would be made, with what it makes use of, by every call, and was a
 * seventh of the garbage that calls over Redis leave.
 */
function remember(resolve: (result: never) => void, reject: (error: TollgateError) => void): void {
  resolveLast = resolve
  rejectLast = reject
}

/** A promise that is settled from outside. */
export function deferred<T>(): Deferred<T> {
  const promise = new Promise<T>(remember)
  return { promise, resolve: resolveLast as (result: T) => void, reject: rejectLast }
}
