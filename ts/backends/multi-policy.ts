import type { Decision, PolicyNumbers } from '../api/decision.js'
import { type Block, withBlocks } from './blocks.js'
import { decisionOf, numbersOf } from './decision-of.js'
import {
  callIdIn,
  type EngineOperation,
  type FirstCall,
  isMetered,
  type OperationResult,
  SCHEDULED_CHARGE_LENGTH,
  type ScheduledReservation,
} from './operation.js'
import { RESPONSE_LENGTH, STATUSES, smallInteger, withMarks } from './response.js'

/**
 * Responses with several named limits; `src/abi/response.rs` writes them.
 *
 * Such a response also begins with ten doubles: code, time, offset of the limits' numbers, index of
 * the reported limit, units of an operation, reset after, 0, next after, retry time, reset time. Each
 * limit has six doubles: limit, remaining, retry after (below 0 if the cost can never be admitted),
 * reset after, capacity, next after. If the code has
 * {@link BLOCKED_OFFSET}, two doubles follow for each limit: the number of the ban's length or 0, and the
 * end of the block, both 0 if the limit's key is not blocked. After an operation on a hold its units
 * follow; after a settlement also the owed units, and 1 if it was late. If the units of an operation were
 * by policy, those that it moved, those of its hold and the owed ones follow, one for each policy. If the code
 * has {@link REPEATED_OFFSET}, the units of the first call follow and, of a reservation or a permit, the end of
 * its hold in microseconds, the identifier of the hold in four numbers, and the time now.
 */
const LIMIT_LENGTH = 6

/** The doubles of a response with `limits` limits. */
export function responseLengthOf(limits: number): number {
  return RESPONSE_LENGTH + limits * (LIMIT_LENGTH + BLOCK_LENGTH) + HELD_LENGTH
}

const BLOCK_LENGTH = 2

const HELD_LENGTH = 3

/** Added to the code of a decision with several limits. */
const MULTI_LIMIT_OFFSET = 8

/** Added to the code of a decision with several limits if a block refused the call. */
const BLOCKED_OFFSET = 16

/** Added to the code of a decision with several limits if the call repeats another one. */
const REPEATED_OFFSET = 32

/** The numbers of 32 bits of a hold's identifier. */
const HOLD_PARTS = 4

/** The decision on several limits at `start` of `responses`; `undefined` for a failure. */
export function multiLimitDecisionAt(
  responses: Float64Array,
  start: number,
  names: readonly string[],
): Decision | undefined {
  const whole = (responses[start] as number) - MULTI_LIMIT_OFFSET
  const isRepeated = whole >= REPEATED_OFFSET
  const given = isRepeated ? whole - REPEATED_OFFSET : whole
  const isBlocked = given >= BLOCKED_OFFSET
  const code = isBlocked ? given - BLOCKED_OFFSET : given
  const status = code < 0 ? undefined : STATUSES[code]
  if (status === undefined) {
    return undefined
  }
  const policies: Record<string, PolicyNumbers> = {}
  const isAllowed = status === 'allowed' || status === 'allowed-last'
  let marks: Record<string, number> | undefined
  let at = start + (responses[start + 2] as number)
  for (const name of names) {
    let retryAfterMs = smallInteger(responses[at + 2] as number)
    if (isAllowed && retryAfterMs !== 0) {
      // Of an allowed call it is the mark.
      marks = { ...marks, [name]: retryAfterMs }
      retryAfterMs = 0
    }
    policies[name] = numbersOf(
      smallInteger(responses[at] as number),
      smallInteger(responses[at + 4] as number),
      smallInteger(responses[at + 1] as number),
      retryAfterMs < 0 ? null : retryAfterMs,
      smallInteger(responses[at + 5] as number),
      smallInteger(responses[at + 3] as number),
    )
    at += LIMIT_LENGTH
  }
  const policy = names[responses[start + 3] as number] as string
  const reported = policies[policy] as PolicyNumbers
  const isImpossible = status === 'impossible'
  const times = {
    retryAfterMs: isImpossible ? null : reported.retryAfterMs,
    nextAfterMs: smallInteger(responses[start + 7] as number),
    resetAfterMs: smallInteger(responses[start + 5] as number),
    retryAt: isImpossible ? null : Math.ceil(responses[start + 8] as number),
    resetAt: Math.ceil(responses[start + 9] as number),
  }
  const decision = decisionOf(status, policy, reported, times, policies, responses[start + 1] as number, 'store')
  if (marks !== undefined) {
    withMarks(decision, marks)
  }
  if (isRepeated) {
    // Not a property of all decisions: it would slow down every call of the embedded store.
    Object.assign(decision, { repeated: true })
  }
  return isBlocked ? withBlocks(decision, blocksAt(responses, at, names)) : decision
}

function blocksAt(responses: Float64Array, start: number, names: readonly string[]): Map<string, Block> {
  const blocks = new Map<string, Block>()
  names.forEach((name, index) => {
    const at = start + index * BLOCK_LENGTH
    const until = responses[at + 1] as number
    if (until > 0) {
      blocks.set(name, { step: responses[at] as number, until })
    }
  })
  return blocks
}

/**
 * The result of an operation at `start` of `responses`; `undefined` for a failure.
 *
 * @param shape - The shape of the units, for an operation whose units were by policy or that had an identifier.
 */
export function operationResultAt(
  responses: Float64Array,
  start: number,
  names: readonly string[],
  shape?: UnitsShape,
): OperationResult | undefined {
  const decision = multiLimitDecisionAt(responses, start, names)
  if (decision === undefined) {
    return undefined
  }
  // Meaningless, and not read, unless the operation was one on a hold.
  const code = (responses[start] as number) - MULTI_LIMIT_OFFSET
  const isBlocked = code >= BLOCKED_OFFSET && code < REPEATED_OFFSET
  const limitLength = LIMIT_LENGTH + (isBlocked ? BLOCK_LENGTH : 0)
  const heldAt = start + (responses[start + 2] as number) + names.length * limitLength
  const units = responses[start + 4] as number
  if (code >= REPEATED_OFFSET && shape !== undefined) {
    return { decision, units, first: firstCallAt(responses, heldAt, shape) }
  }
  if (shape?.policies !== undefined) {
    return { decision, units, ...unitsByPolicyAt(responses, heldAt, shape.kind, shape.policies) }
  }
  const [held, owed] = [responses[heldAt] as number, responses[heldAt + 1] as number]
  return { decision, units, held, owed, isLate: responses[heldAt + 2] === 1 }
}

/** The kind of an operation, and the number of policies if its units are by policy. */
export interface UnitsShape {
  readonly kind: EngineOperation['kind']
  readonly policies: number | undefined
}

/** The shape of the units of an operation, if {@link operationResultAt} needs it. */
export function shapeOf(operation: EngineOperation, policies: number): UnitsShape | undefined {
  const hasOwn = isMetered(operation)
  return hasOwn || callIdIn(operation) !== undefined
    ? { kind: operation.kind, policies: hasOwn ? policies : undefined }
    : undefined
}

/** The first call with an identifier: its units, and of a reservation or a permit its hold. */
function firstCallAt(responses: Float64Array, start: number, { kind, policies }: UnitsShape): FirstCall {
  const units = policies === undefined ? (responses[start] as number) : [...responses.subarray(start, start + policies)]
  const at = start + (policies ?? 1)
  if (kind === 'take') {
    return { units, hold: undefined, expiresAtUs: 0, atUs: 0 }
  }
  const hold = new Uint8Array(4 * HOLD_PARTS)
  const view = new DataView(hold.buffer)
  for (let part = 0; part < HOLD_PARTS; part++) {
    view.setUint32(4 * part, responses[at + 1 + part] as number)
  }
  return { units, hold, expiresAtUs: responses[at] as number, atUs: responses[at + 1 + HOLD_PARTS] as number }
}

/** The moved units and those of the hold after the limits' numbers: one number for each policy. */
function unitsByPolicyAt(
  responses: Float64Array,
  start: number,
  kind: EngineOperation['kind'],
  policies: number,
): Pick<OperationResult, 'moved' | 'held' | 'owed' | 'isLate'> {
  const at = (place: number) => [...responses.subarray(place, place + policies)]
  switch (kind) {
    case 'penalize':
    case 'refund':
      return { moved: at(start) }
    case 'settle':
      return {
        moved: at(start),
        held: at(start + policies),
        owed: at(start + 2 * policies),
        isLate: responses[start + 3 * policies] === 1,
      }
    case 'extend':
      return { held: at(start) }
    default:
      return {}
  }
}

/** The scheduled reservation at `start`; `undefined` for a failure. Its charges follow the limits' numbers. */
export function scheduledReservationAt(
  responses: Float64Array,
  start: number,
  names: readonly string[],
  policies: number,
): ScheduledReservation | undefined {
  const result = operationResultAt(responses, start, names)
  if (result === undefined) {
    return undefined
  }
  const { decision, units } = result
  const at = start + (responses[start + 2] as number) + names.length * LIMIT_LENGTH
  const charges = decision.allowed ? responses.slice(at, at + policies * SCHEDULED_CHARGE_LENGTH) : undefined
  return { decision, waitUs: units, charges }
}
