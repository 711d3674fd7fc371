import type { LimiterBackend } from '../backends/limiter-backend.js'
import type { CallId, OperationResult } from '../backends/operation.js'
import type { Units } from '../backends/units.js'
import type { Keys } from '../input/keys.js'
import type { Decision } from './decision.js'
import { withUnits } from './decision-metadata.js'

/** Takes units for a call with an id. A repeated call gets the first decision, with the units of the first call. */
export function takeById(
  backend: LimiterBackend,
  keys: Keys,
  cost: Units,
  callId: CallId,
): Decision | Promise<Decision> {
  const decisionIn = ({ decision, first, keys: own = keys }: OperationResult) =>
    withUnits(decision, backend.origin, own, first?.units ?? cost)
  const result = backend.execute(keys, { kind: 'take', cost, callId })
  return result instanceof Promise ? result.then(decisionIn) : decisionIn(result)
}
