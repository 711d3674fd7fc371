/**
 * The fields of a decision that follow from others, and the numbers that the page of operations promises:
 * computed here from the page, because all stores share the code that makes decisions.
 */
import type { Decision, PolicyNumbers } from '../../ts/index.js'
import type { Case } from './cases.js'

/** What a simulation knows of the call. */
export interface KnownCall {
  readonly case: Case
  /** The operation's name. */
  readonly name: string
  readonly nowUs: number
  readonly hasBanRule: boolean
}

type Numbers = Pick<
  PolicyNumbers,
  'limit' | 'capacity' | 'used' | 'remaining' | 'retryAfterMs' | 'nextAfterMs' | 'resetAfterMs'
>

/** Checks all decisions in an outcome, and throws an error that names the field that is wrong. */
export function checkDecisions(outcome: unknown, call: KnownCall): void {
  if (Array.isArray(outcome)) {
    for (const one of outcome) {
      checkDecisions(one, call)
    }
  } else if (typeof outcome === 'object' && outcome !== null) {
    const { decision } = outcome as { readonly decision?: unknown }
    checkDecisions(decision, call)
    if ('status' in outcome && 'policies' in outcome) {
      const decision = outcome as Decision
      checkFields(decision)
      checkKnown(decision, call)
    }
  }
}

function expectField(decision: Decision, field: string, actual: unknown, expected: unknown): void {
  if (!Object.is(actual, expected)) {
    throw new Error(`${field} is ${actual}, and must be ${expected}: ${JSON.stringify(decision)}`)
  }
}

/** Checks what the caller knows of a decision of the store. */
function checkKnown(decision: Decision, call: KnownCall): void {
  const { allowed, status, policies, at } = decision
  const expect = expectField.bind(undefined, decision)
  expect('at', Math.round(at * 1_000), call.nowUs)
  expect('source', decision.source, 'store')
  for (const [name, { limit }] of Object.entries(policies)) {
    expect(`limit of ${name} was written`, writtenIn(call.case, name).has(limit), true)
  }
  // The numbers of a peek are those before the call.
  if (!['peek', 'wait and leave'].includes(call.name) && allowed) {
    expect('status', status, decision.remaining === 0 ? 'allowed-last' : 'allowed')
  }
  expect('ban without a rule', 'ban' in decision && !call.hasBanRule, false)
  const ban = status === 'blocked' ? decision.ban : undefined
  // Of cached refusals the answers about several keys have different ages.
  expect('retryAt within a ban', ban !== undefined && (decision.retryAt as number) < ban.until, false)
}

/** Checks the fields of a decision that follow from others, whatever its `source`. */
export function checkFields(decision: Decision): void {
  const { allowed, status, policy, retryAfterMs, resetAfterMs, policies, at } = decision
  const expect = expectField.bind(undefined, decision)
  const atUs = Math.round(at * 1_000)
  // A time and the duration until it are each rounded up once, from microseconds. The durations of local
  // decisions are rounded up once more.
  const roundedMs = decision.source === 'store' ? 1 : 2
  const isAfter = (time: number, ms: number) =>
    Number.isInteger(time) &&
    time <= Math.ceil((atUs + ms * 1_000) / 1_000) &&
    time * 1_000 > atUs + (ms - roundedMs) * 1_000
  const all = Object.entries(policies)
  const numbers = all.map(([, one]) => one)
  const own = policies[policy] as Numbers
  expect('allowed', allowed, status === 'allowed' || status === 'allowed-last')
  for (const field of ['limit', 'capacity', 'used', 'remaining'] as const) {
    expect(field, decision[field], own[field])
  }
  for (const [name, one] of all) {
    expect(`used of ${name}`, one.used, one.capacity - one.remaining)
    expect(`remaining of ${name} is a number of units`, one.remaining >= 0 && one.remaining <= one.capacity, true)
  }
  expect('retryAfterMs', retryAfterMs, allowed ? 0 : status === 'impossible' ? null : longest(numbers))
  expect('retryAfterMs of a refusal', allowed || retryAfterMs === null || retryAfterMs >= 1, true)
  expect('resetAfterMs', resetAfterMs, Math.max(...numbers.map((one) => one.resetAfterMs)))
  expect('nextAfterMs', decision.nextAfterMs, Math.max(...numbers.map((one) => one.nextAfterMs)))
  expect('retryAt', decision.retryAt === null, retryAfterMs === null)
  expect(
    'retryAt is retryAfterMs after at',
    retryAfterMs === null || isAfter(decision.retryAt as number, retryAfterMs),
    true,
  )
  expect('resetAt is resetAfterMs after at', isAfter(decision.resetAt, resetAfterMs), true)
  if (allowed) {
    expect('remaining', decision.remaining, Math.min(...numbers.map((one) => one.remaining)))
  } else if (status === 'impossible') {
    const tooSmall = numbers.filter((one) => one.retryAfterMs === null)
    expect('capacity', decision.capacity, Math.min(...tooSmall.map((one) => one.capacity)))
  } else {
    expect(`retryAfterMs of ${policy}`, own.retryAfterMs, retryAfterMs)
  }
  const ban = status === 'blocked' ? decision.ban : undefined
  expect('marks of a refusal', !allowed && 'marks' in decision, false)
  expect('ban without a block', 'ban' in decision && status !== 'blocked', false)
  if (ban !== undefined) {
    expect('ban', ban.until * 1_000 > atUs && ban.step >= 1, true)
  }
}

function longest(numbers: readonly Numbers[]): number {
  return Math.max(...numbers.map(({ retryAfterMs }) => retryAfterMs ?? 0))
}

const WRITTEN = new WeakMap<Case, Map<string, Set<number>>>()

/** The numbers that the policies and the overrides of a case have as the limit of a name. */
function writtenIn(limited: Case, name: string): ReadonlySet<number> {
  const byName = WRITTEN.get(limited) ?? new Map<string, Set<number>>()
  WRITTEN.set(limited, byName)
  let written = byName.get(name)
  if (written === undefined) {
    written = new Set([...limited.versions, ...limited.numbers].flatMap((one) => [...numbersFor(one, name)]))
    byName.set(name, written)
  }
  return written
}

/** The main numbers of a policy, of policies by name or of an override that concern a limit. */
function* numbersFor(one: object, name: string): Generator<number> {
  const { limit, capacity, limits } = one as { limit?: unknown; capacity?: unknown; limits?: object }
  for (const number of [limit, capacity]) {
    if (typeof number === 'number') {
      yield number
    }
  }
  // A policy by the first part of the name, and one of its limits by the last.
  const [first, last = first] = name.split('.')
  for (const part of [limits && Reflect.get(limits, last as string), Reflect.get(one, first as string)]) {
    if (typeof part === 'object' && part !== null) {
      yield* numbersFor(part, last as string)
    }
  }
}
