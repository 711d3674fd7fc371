import type { PolicySet } from '../policies/policy-set.js'
import { TollgateError } from './error.js'

/** Whether units can be settled: some are not those of concurrency, and all of these can be refunded. */
export function canSettle({ policies }: PolicySet): boolean {
  const others = policies.filter(({ policy }) => policy.algorithm !== 'concurrency')
  return others.length > 0 && others.every(({ policy }) => policy.algorithm !== 'slidingCounter')
}

/** The error of a method that settles units, where {@link canSettle} is false. */
export function unsettledError(method: string, { policies }: PolicySet): TollgateError {
  const isEstimate = policies.some(({ policy }) => policy.algorithm === 'slidingCounter')
  const rule = isEstimate
    ? 'cannot be used with slidingCounter, which only estimates the count of earlier calls; use slidingWindow'
    : 'needs a policy beside concurrency, whose units it settles; add one, or use acquire(key) and release()'
  return new TollgateError('INVALID_OPTION', `${method} ${rule}`)
}
