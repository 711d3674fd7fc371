import type { TollgateError } from '../../../api/error.js'

const nothing = () => {}
let resolveLast: (result: never) => void = nothing
let rejectLast: (error: TollgateError) => void = nothing

/** One function for all promises. A closure per call was a seventh of the garbage of calls over Redis. */
function remember(resolve: (result: never) => void, reject: (error: TollgateError) => void): void {
  resolveLast = resolve
  rejectLast = reject
}

/** A promise that is settled from outside. */
export function deferred<T>() {
  const promise = new Promise<T>(remember)
  const made = { promise, resolve: resolveLast as (result: T) => void, reject: rejectLast }
  // They would keep the promise, with its result and its async context, until the next call.
  resolveLast = nothing
  rejectLast = nothing
  return made
}
