import type { TakeManyResults } from '../backends/limiter-backend.js'
import type { Decision } from './decision.js'
import { TollgateError } from './error.js'

/** Whether `takeMany` has charged any of its keys. */
export function chargedBy(results: TakeManyResults): boolean | 'unknown' {
  const isCharged = (result: Decision | TollgateError) => {
    // Without a store nothing is counted.
    return result instanceof TollgateError ? result.charged === true : result.allowed && result.source !== 'none'
  }
  const isUnknown = (result: Decision | TollgateError) =>
    result instanceof TollgateError && result.charged === 'unknown'
  return results.some(isCharged) || (results.some(isUnknown) ? 'unknown' : false)
}
