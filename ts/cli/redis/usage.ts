import { escapeControls } from '../terminal.js'
import type { Connection } from './connect/connection.js'
import type { LimiterConfig } from './policies.js'
import { scan } from './scan.js'
import { type KeyState, keyStateOf, layoutOf } from './state.js'

/** The number of a prefix's keys that suffice to show its policies. */
const ENOUGH_KEYS = 1_000

const MAX_PREFIXES = 10

/** A policy as it appears in key names. */
export type UsedPolicy = Pick<KeyState, 'policy' | 'algorithm' | 'layout'>

/** The hash tag of a key: its own name (`none`), the tag of the call or the limiter, or a tag that keys share. */
export type TagKind = 'none' | 'own' | 'shared'

export interface PrefixUsage {
  /** The policies that have keys, with the kinds of hash tags of those keys. */
  readonly policies: readonly (UsedPolicy & { readonly tags: readonly TagKind[] })[]
  /** The prefixes of all limiters' keys that were scanned. */
  readonly prefixes: readonly string[]
  readonly isComplete: boolean
}

export interface UsageQuery {
  readonly prefix: string
  readonly forMs: number
  /** The policies to find, each with at least one key. Without policies, any key of the prefix suffices. */
  readonly policies?: readonly UsedPolicy[]
  /** The kind of hash tag that the keys must have. */
  readonly kind?: TagKind
}

/** Finds the policies of a prefix, until the goal is reached, enough keys have been read, or the time is over. */
export async function scanUsage(
  connection: Connection,
  { prefix, forMs, policies = [], kind = 'none' }: UsageQuery,
): Promise<PrefixUsage> {
  const used = new Map<string, UsedPolicy & { readonly tags: TagKind[] }>()
  const prefixes = new Set<string>()
  const isSatisfied = (policy: UsedPolicy) => used.get(formatPolicy(policy))?.tags.includes(kind) === true
  const isFound = () => (policies.length === 0 ? used.size > 0 : policies.every(isSatisfied))
  let read = 0
  // The pattern matches the keys of all limiters, to find other prefixes. Only keys of this prefix are read.
  const { isComplete } = await scan(connection, { prefix, pattern: '*:{*', forMs }, (page) => {
    read += page.found.length
    for (const owner of page.owners) {
      prefixes.add(owner.prefix)
    }
    for (const stored of page.found) {
      const { policy, algorithm, layout } = keyStateOf(stored, page.nowUs)
      const found = { policy, algorithm, ...(layout === undefined ? {} : { layout }) }
      const known = used.get(formatPolicy(found)) ?? { ...found, tags: [] }
      const own = stored.sharesTag ? 'shared' : stored.ownTag === undefined ? 'none' : 'own'
      if (!known.tags.includes(own)) {
        known.tags.push(own)
      }
      used.set(formatPolicy(found), known)
    }
    return read >= ENOUGH_KEYS || isFound()
  })
  return { policies: [...used.values()], prefixes: [...prefixes].sort(), isComplete }
}

export function usedPolicyOf({ name, policy }: LimiterConfig['policySet']['policies'][number]): UsedPolicy {
  const layout = layoutOf(policy)
  return { policy: name, algorithm: policy.algorithm, ...(layout === undefined ? {} : { layout }) }
}

export function formatPolicy({ policy, algorithm, layout }: UsedPolicy): string {
  return `${escapeControls(policy)} (${layout === undefined || layout === 'list' ? algorithm : `${algorithm}, ${layout}`})`
}

export function formatPolicyList(policies: readonly UsedPolicy[]): string {
  const words = policies.map(formatPolicy).sort()
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}

export function formatNoKeys(prefix: string, server: string, { prefixes, isComplete }: PrefixUsage): string {
  const others = prefixes.filter((other) => other !== prefix)
  const more = others.length > MAX_PREFIXES ? `, and ${others.length - MAX_PREFIXES} more` : ''
  const list = others.slice(0, MAX_PREFIXES).map(escapeControls).join(', ') + more
  const known = others.length === 0 ? "and no other key is a limiter's" : `these have keys: ${list}`
  return `${isComplete ? 'no key' : 'none of the scanned keys'} at ${server} has the prefix ${prefix}, ${known}`
}
