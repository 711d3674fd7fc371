import { microsOf } from '../input/duration.js'
import { invalid } from '../input/options.js'
import type { PolicySet } from '../policies/policy-set.js'
import type { Decision } from './decision.js'

/** Checks a copy of a decision as far as a refund reads it. @throws {TollgateError} `INVALID_OPTION` */
export function copiedDecisionOf(value: unknown, { limits }: PolicySet): Decision {
  const { at, allowed, source, policies, marks } = (value ?? {}) as { readonly [property: string]: unknown }
  const numbersOf = (name: string) => (policies as { readonly [name: string]: unknown } | undefined)?.[name]
  const markOf = (name: string) => (marks as { readonly [name: string]: unknown } | null | undefined)?.[name]
  const isDecision =
    typeof allowed === 'boolean' &&
    typeof source === 'string' &&
    typeof at === 'number' &&
    isTime(microsOf(at)) &&
    limits.every(({ name }) => areTimes(numbersOf(name)) && isTime(markOf(name) ?? 0))
  if (!isDecision) {
    const names = limits.map(({ name }) => name).join(', ')
    throw invalid('INVALID_OPTION', 'decision', `must be a decision of a limiter with the policies ${names}`, value)
  }
  return value as Decision
}

function areTimes(value: unknown): boolean {
  const { capacity, limit, remaining, resetAfterMs } = (value ?? {}) as { readonly [property: string]: unknown }
  return [capacity, limit, remaining, resetAfterMs].every(isTime)
}

function isTime(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
