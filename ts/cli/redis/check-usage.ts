import { usageError } from '../failure.js'
import type { Connection } from './connect/connection.js'
import { formatKey } from './format-inspection.js'
import { holdsAny, type KeyInspection, type KeyQuery, readKey } from './inspect.js'
import { keyOf, type LimiterConfig } from './policies.js'
import { keysOf } from './sought-key.js'
import { hasState, type KeyState } from './state.js'
import {
  formatNoKeys,
  formatPolicy,
  formatPolicyList,
  scanUsage,
  type TagKind,
  type UsedPolicy,
  usedPolicyOf,
} from './usage.js'

function policiesBy(key: KeyInspection['key'], config: LimiterConfig, isChange: boolean): UsedPolicy[] {
  const names = keysOf(key, config, isChange).flatMap(([, own]) => own)
  const own = config.policySet.policies.filter(({ name }) => names.includes(name))
  return own.map(usedPolicyOf)
}

/** The existing state of a key that is to be changed, under the given policies. */
export interface ExistingState {
  readonly states: readonly KeyState[]
  /** Whether the key has open reservations or remembered ids. */
  readonly holdsAny: boolean
}

/**
 * Checks that limiters use the prefix with these policies: they have registered them, or the key itself has state under
 * them, or other keys of the prefix do. With a wrong prefix, algorithm or hash tag, the command would change a key that
 * no limiter reads.
 *
 * @param isRegistered - Whether limiters have registered these policies.
 * @param scanMs - The time for scanning keys, in milliseconds; `undefined` skips the check.
 */
export async function checkUsage(
  connection: Connection,
  query: KeyQuery,
  config: LimiterConfig,
  isRegistered: boolean,
  scanMs: number | undefined,
): Promise<ExistingState> {
  const key = keyOf(query.key, config.policySet)
  const policies = policiesBy(key, config, true)
  const { states: all, held } = await readKey(connection, query, { lookups: keysOf(key, config, true) })
  const isGiven = (state: UsedPolicy) => policies.some((policy) => formatPolicy(policy) === formatPolicy(state))
  const states = all.filter(isGiven)
  const before = { states: states.filter(hasState), holdsAny: holdsAny(held) }
  if (scanMs === undefined) {
    return before
  }
  const others = isRegistered ? [] : foreign(policies, all)
  if (others.length > 0) {
    const given = formatPolicyList(policies)
    throw unexpected(`${formatKey(key)} has state under ${formatPolicyList(others)}, and none under ${given}`, POLICY)
  }
  if (states.length > 0) {
    return before
  }
  const { prefix } = query
  const tagKind: TagKind = query.tag !== undefined ? 'own' : query.clusterTags !== undefined ? 'shared' : 'none'
  const usage = await scanUsage(connection, { prefix, forMs: scanMs, policies, kind: tagKind })
  const used = usage.policies.filter(isGiven)
  if (isRegistered && used.length === 0) {
    return before
  }
  if (usage.policies.length === 0) {
    const advice = usage.isComplete ? 'correct --prefix' : 'correct --prefix, or increase --scan'
    throw unexpected(formatNoKeys(prefix, connection.name, usage), advice)
  }
  const wrong = isRegistered ? [] : used.length === 0 ? usage.policies : foreign(policies, usage.policies)
  if (wrong.length > 0) {
    throw unexpected(keysAreOthers(prefix, wrong, policies), POLICY)
  }
  const tags = used.flatMap((one) => one.tags)
  if (!tags.includes(tagKind)) {
    const other = tags.includes('shared') ? "give the store's --cluster-tags" : 'give --tag'
    const advice = tags.includes('none') ? NO_TAG : other
    throw unexpected(`the keys of ${prefix} have other hash tags than this key would have`, advice)
  }
  return before
}

/** Notes on the policies of the prefix's other keys, for a key without state. */
export function usageNotes({ prefix, key, server, usage }: KeyInspection, config: LimiterConfig | undefined): string[] {
  if (usage === undefined) {
    return []
  }
  if (usage.policies.length === 0) {
    return [formatNoKeys(prefix, server, usage)]
  }
  const policies = config === undefined ? [] : policiesBy(key, config, false)
  const others = foreign(policies, usage.policies)
  return others.length === 0 ? [] : [keysAreOthers(prefix, others, policies)]
}

function keysAreOthers(prefix: string, others: readonly UsedPolicy[], given: readonly UsedPolicy[]): string {
  return `the keys of ${prefix} belong to ${formatPolicyList(others)}, and none to ${formatPolicyList(given)}`
}

const POLICY = "give the limiter's own --policy or --policies"
const NO_TAG = 'omit --tag and --cluster-tags'

/** Stored policies with the name of a given policy and another algorithm, if the given policy has no keys. */
function foreign<P extends UsedPolicy>(given: readonly UsedPolicy[], found: readonly P[]): P[] {
  const words = new Set(found.map(formatPolicy))
  const missing = given.filter((policy) => !words.has(formatPolicy(policy))).map(({ policy }) => policy)
  return found.filter(({ policy }) => missing.includes(policy))
}

function unexpected(found: string, advice: string): Error {
  return usageError(`nothing was done: ${found}; ${advice}, or --force if the limiter has not been called yet`)
}
