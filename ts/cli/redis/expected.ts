import { wrongUsage } from '../failure.js'
import type { Connection } from './connect/connection.js'
import { keysOf, type Look, statesOf, type Wanted } from './inspect.js'
import { type Enforced, keyOf } from './policies.js'
import { keyInWords } from './print.js'
import { counts, type KeyState } from './state.js'
import {
  noKeysInWords,
  policiesInWords,
  policyInWords,
  type TagKind,
  type UsedPolicy,
  usageOf,
  usedPolicyOf,
} from './usage.js'

/** The policies of a limiter that count by a key, as keys' names have them. */
export function policiesBy(key: ReturnType<typeof keyOf>, enforced: Enforced): UsedPolicy[] {
  const names = keysOf(key, enforced, undefined).flatMap(([, own]) => own)
  const own = enforced.compound.policies.filter(({ name }) => names.includes(name))
  return own.map(usedPolicyOf)
}

/** What is kept of the key that is to be changed, under the policies given. */
export interface Before {
  readonly states: readonly KeyState[]
  readonly reservations: number
}

/**
 * Expects that limiters use the prefix with these policies: as the key itself shows, or other keys of the prefix. A
 * change under another prefix, or another algorithm, would be on a key that nobody asks for.
 *
 * @param scanMs - For how long keys may be gone through; without, none are, and nothing is expected.
 * @throws {CommandFailure} that names what was found.
 */
export async function expectUse(
  connection: Connection,
  wanted: Wanted,
  enforced: Enforced,
  scanMs: number | undefined,
): Promise<Before> {
  const key = keyOf(wanted.key, enforced.compound)
  const policies = policiesBy(key, enforced)
  const { states: all, holds } = await statesOf(connection, wanted, key, enforced, undefined)
  const isGiven = (state: UsedPolicy) => policies.some((policy) => policyInWords(policy) === policyInWords(state))
  const states = all.filter(isGiven)
  const before = { states: states.filter(counts), reservations: holds.holds }
  if (scanMs === undefined) {
    return before
  }
  const others = foreign(policies, all)
  if (others.length > 0) {
    const given = policiesInWords(policies)
    throw unexpected(`${keyInWords(key)} has state under ${policiesInWords(others)}, and none under ${given}`, POLICY)
  }
  if (states.length > 0) {
    return before
  }
  const { prefix } = wanted
  const kind: TagKind = wanted.tag !== undefined ? 'own' : wanted.clusterTags !== undefined ? 'shared' : 'none'
  const usage = await usageOf(connection, { prefix, forMs: scanMs, policies, kind })
  if (usage.policies.length === 0) {
    const mend = usage.isComplete ? 'correct --prefix' : 'correct --prefix, or look further by --scan'
    throw unexpected(noKeysInWords(prefix, connection.name, usage), mend)
  }
  const used = usage.policies.filter(isGiven)
  const wrong = used.length === 0 ? usage.policies : foreign(policies, usage.policies)
  if (wrong.length > 0) {
    throw unexpected(keysAreOthers(prefix, wrong, policies), POLICY)
  }
  const tags = used.flatMap((one) => one.tags)
  if (!tags.includes(kind)) {
    const other = tags.includes('shared') ? "give the store's --cluster-tags" : 'give --tag'
    const mend = tags.includes('none') ? NO_TAG : other
    throw unexpected(`the keys of ${prefix} lie under other hash tags than this one would`, mend)
  }
  return before
}

/** What the other keys of a prefix show, where nothing is kept of the one that was looked at. */
export function usageInWords({ prefix, key, server, usage }: Look, enforced: Enforced | undefined): string[] {
  if (usage === undefined) {
    return []
  }
  if (usage.policies.length === 0) {
    return [noKeysInWords(prefix, server, usage)]
  }
  const policies = enforced === undefined ? [] : policiesBy(key, enforced)
  const others = foreign(policies, usage.policies)
  return others.length === 0 ? [] : [keysAreOthers(prefix, others, policies)]
}

function keysAreOthers(prefix: string, others: readonly UsedPolicy[], given: readonly UsedPolicy[]): string {
  return `the keys of ${prefix} are of ${policiesInWords(others)}, none is of ${policiesInWords(given)}`
}

const POLICY = "give the limiter's own --policy or --policies"
const NO_TAG = 'leave --tag and --cluster-tags out'

/** What was found under the names of the policies given, where that is another algorithm, and they were not found. */
function foreign<P extends UsedPolicy>(given: readonly UsedPolicy[], found: readonly P[]): P[] {
  const words = new Set(found.map(policyInWords))
  const missing = given.filter((policy) => !words.has(policyInWords(policy))).map(({ policy }) => policy)
  return found.filter(({ policy }) => missing.includes(policy))
}

function unexpected(found: string, mend: string): Error {
  return wrongUsage(`nothing was done: ${found}; ${mend}, or --force if the limiter has not been called yet`)
}
