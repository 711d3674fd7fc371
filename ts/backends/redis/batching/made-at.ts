/** When the call that is being made was made first, by `timers.now`; `undefined` if it is made for the first time. */
let firstMadeAt: number | undefined

/** {@link madeAt} of the call that is being made. */
export function currentMadeAt(): number | undefined {
  return firstMadeAt
}

/** Makes a call that has waited for another one. Its deadline counts from `time`, when it was made first. */
export function madeAt<T>(time: number | undefined, call: () => T): T {
  const outer = firstMadeAt
  firstMadeAt = time
  try {
    return call()
  } finally {
    firstMadeAt = outer
  }
}
