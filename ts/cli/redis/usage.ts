import type * as native from '../../../native.js'
import { printable } from '../terminal.js'
import type { Connection } from './connect/connection.js'
import type { Enforced } from './policies.js'
import { type KeyState, keyStateOf, layoutOf } from './state.js'

/** About how many keys a server looks at for one page of a scan. */
const PAGE = 1_000

/** So many keys of a prefix show by which policies it is used. */
const ENOUGH_KEYS = 1_000

/** So many prefixes are told. */
const MOST_TOLD = 10

/** A policy as keys' names have it. */
export type UsedPolicy = Pick<KeyState, 'policy' | 'algorithm' | 'layout'>

/** Which hash tag a key lies under: its own name, the call's or the limiter's tag, or one that keys share. */
export type TagKind = 'none' | 'own' | 'shared'

/** What the keys of a prefix show. */
export interface Usage {
  /** The policies under which there are keys, and which hash tags those have. */
  readonly policies: readonly (UsedPolicy & { readonly tags: readonly TagKind[] })[]
  /** The prefixes of all limiters' keys that were met. */
  readonly prefixes: readonly string[]
  /** Whether all keys were gone through. */
  readonly isComplete: boolean
}

/** What is looked for. */
export interface UsageSearch {
  readonly prefix: string
  readonly forMs: number
  /** Policies, of each of which a key is to be met; without them any key of the prefix will do. */
  readonly policies?: readonly UsedPolicy[]
  /** The kind of hash tag that their keys are to have. */
  readonly kind?: TagKind
}

/**
 * Goes through the keys by SCAN, a page of each master in turn, and tells by which policies a prefix is used. It ends
 * once what is looked for has been met, enough keys of the prefix have been read, or the time is over.
 */
export async function usageOf(
  { reader, masters }: Connection,
  { prefix, forMs, policies = [], kind = 'none' }: UsageSearch,
): Promise<Usage> {
  const until = performance.now() + forMs
  const used = new Map<string, UsedPolicy & { readonly tags: TagKind[] }>()
  const prefixes = new Set<string>()
  const isMet = (policy: UsedPolicy) => used.get(policyInWords(policy))?.tags.includes(kind) === true
  const isFound = () => (policies.length === 0 ? used.size > 0 : policies.every(isMet))
  let read = 0
  let open = masters.names.map((_, master) => ({ master, cursor: '0' }))
  do {
    for (const one of open) {
      // The names of all limiters' keys tell the other prefixes; only the keys of this one are read.
      const page = await reader.page({ prefix, ...one, pattern: '*:{*', count: PAGE })
      one.cursor = page.cursor
      read += page.found.length
      for (const name of page.prefixes) {
        prefixes.add(name)
      }
      for (const stored of page.found) {
        const { policy, algorithm, layout } = keyStateOf(stored, page.nowUs)
        const found = { policy, algorithm, ...(layout === undefined ? {} : { layout }) }
        const known = used.get(policyInWords(found)) ?? { ...found, tags: [] }
        const own = tagKindOf(stored)
        if (!known.tags.includes(own)) {
          known.tags.push(own)
        }
        used.set(policyInWords(found), known)
      }
    }
    open = open.filter(({ cursor }) => cursor !== '0')
  } while (open.length > 0 && read < ENOUGH_KEYS && !isFound() && performance.now() < until)
  return { policies: [...used.values()], prefixes: [...prefixes].sort(), isComplete: open.length === 0 }
}

function tagKindOf({ ownTag, sharesTag }: native.RedisStored): TagKind {
  return sharesTag ? 'shared' : ownTag === undefined ? 'none' : 'own'
}

/** A limiter's policy as the names of its keys have it. */
export function usedPolicyOf({ name, policy }: Enforced['compound']['policies'][number]): UsedPolicy {
  const layout = layoutOf(policy)
  return { policy: name, algorithm: policy.algorithm, ...(layout === undefined ? {} : { layout }) }
}

/** A policy's name and its algorithm: `default (gcra)`. */
export function policyInWords({ policy, algorithm, layout }: UsedPolicy): string {
  return `${printable(policy)} (${layout === undefined || layout === 'list' ? algorithm : `${algorithm}, ${layout}`})`
}

/** Policies in words: `default (gcra)`, `each (gcra) and all (fixedWindow)`. */
export function policiesInWords(policies: readonly UsedPolicy[]): string {
  const words = policies.map(policyInWords).sort()
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}

/** That a prefix has no keys, and which have. */
export function noKeysInWords(prefix: string, server: string, { prefixes, isComplete }: Usage): string {
  const others = prefixes.filter((other) => other !== prefix)
  const more = others.length > MOST_TOLD ? `, and ${others.length - MOST_TOLD} more` : ''
  const told = others.slice(0, MOST_TOLD).map(printable).join(', ') + more
  const known = others.length === 0 ? "and no other key is a limiter's" : `the prefixes with keys are ${told}`
  return isComplete
    ? `no key at ${server} has the prefix ${prefix}, ${known}`
    : `of the keys at ${server} that were gone through none has the prefix ${prefix}, ${known}`
}
