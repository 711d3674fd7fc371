import type { Decision } from '../../api/decision.js'

/** Stores a decision in a property of a request. Several middlewares may use one property. */
export function attachDecision(request: object, property: string, decision: Decision): void {
  const properties = request as Record<string, unknown>
  if (isReplaceable(properties[property], decision)) {
    properties[property] = decision
  }
}

/**
 * Whether a decision replaces an earlier one. The last decision stays, but no decision that allows a request hides one
 * that refuses it. Both exist in shadow mode, or if a `handler` lets the request pass.
 */
export function isReplaceable(earlier: unknown, { allowed }: Decision): boolean {
  return !allowed || (earlier as Partial<Decision> | undefined)?.allowed !== false
}
