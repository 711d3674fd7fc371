import type { Decision, PolicyNumbers } from '../api/decision.js'
import { type Block, withBlocks } from './blocks.js'
import { decisionOf, numbersOf } from './decision-of.js'
import {
  type EngineOperation,
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
 * by policy, those that it moved, those of its hold and the owed ones follow, one for each policy.
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

/** The decision on several limits at `start` of `responses`; `undefined` for a failure. */
export function multiLimitDecisionAt(
  responses: Float64Array,
  start: number,
  names: readonly string[],
): Decision | undefined {
  const given = (responses[start] as number) - MULTI_LIMIT_OFFSET
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
 * @param metered - The kind of the operation if its units were by policy.
 */
export function operationResultAt(
  responses: Float64Array,
  start: number,
  names: readonly string[],
  metered?: MeteredKind,
): OperationResult | undefined {
  const decision = multiLimitDecisionAt(responses, start, names)
  if (decision === undefined) {
    return undefined
  }
  // Meaningless, and not read, unless the operation was one on a hold.
  const isBlocked = (responses[start] as number) >= MULTI_LIMIT_OFFSET + BLOCKED_OFFSET
  const limitLength = LIMIT_LENGTH + (isBlocked ? BLOCK_LENGTH : 0)
  const heldAt = start + (responses[start + 2] as number) + names.length * limitLength
  const units = responses[start + 4] as number
  if (metered !== undefined) {
    return { decision, units, ...unitsByPolicyAt(responses, heldAt, metered) }
  }
  const [held, owed] = [responses[heldAt] as number, responses[heldAt + 1] as number]
  return { decision, units, held, owed, isLate: responses[heldAt + 2] === 1 }
}

/** The kind of an operation whose units are by policy, and the number of policies. */
export interface MeteredKind {
  readonly kind: EngineOperation['kind']
  readonly policies: number
}

/** The moved units and those of the hold after the limits' numbers: one number for each policy. */
function unitsByPolicyAt(
  responses: Float64Array,
  start: number,
  { kind, policies }: MeteredKind,
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
