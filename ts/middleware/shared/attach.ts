import type { Decision } from '../../api/decision.js'

/** Stores a decision in a property of a request. Several middlewares may use one property. */
export function attachDecision(request: object, property: string, decision: Decision): void {
  const properties = request as Record<string, unknown>
  if (isReplaceable(properties[property], decision)) {
    properties[property] = decision
  }
}

/** Whether a decision replaces an earlier one: the last one does, but an allowing one does not hide a refusal. */
export function isReplaceable(earlier: unknown, { allowed }: Decision): boolean {
  return !allowed || (earlier as Partial<Decision> | undefined)?.allowed !== false
}
