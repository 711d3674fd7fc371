/** When the call that is being made was made first, by `timers.now`; `undefined` if it is made for the first time. */
let firstMadeAt: number | undefined

/** {@link madeAt} of the call that is being made. */
export function currentMadeAt(): number | undefined {
  return firstMadeAt
}

/**
 * Makes a call that has waited for the answer to another call. Its deadline counts from `time`. The
 * call reaches the store before this returns, or waits once more.
 *
 * @param time - When it was made first; `undefined` for now.
 */
export function madeAt<T>(time: number | undefined, call: () => T): T {
  const outer = firstMadeAt
  firstMadeAt = time
  try {
    return call()
  } finally {
    firstMadeAt = outer
  }
}
