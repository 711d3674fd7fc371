import { Warnings } from '../platform/warning.js'

const warnings = new Warnings()

/** Warns of a prefix that another limiter has open with other numbers. */
export function warnOfOtherNumbers(prefix: string | null): void {
  if (prefix !== null) {
    const named = `prefix ${JSON.stringify(prefix)}`
    const message =
      `${named} is open on this store with other numbers: each limiter decides by its own, on the same keys\n` +
      'This is as intended if a module was loaded again. Otherwise use one limiter, or another prefix'
    warnings.once('TOLLGATE_OTHER_NUMBERS', message, named)
  }
}
