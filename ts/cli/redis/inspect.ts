import type * as native from '../../../native.js'
import type { Decision } from '../../api/decision.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import { algorithmOf } from '../../policies/policy.js'
import { asUsageError } from '../failure.js'
import type { Connection } from './connect/connection.js'
import { keyOf, type LimiterConfig } from './policies.js'
import { hasState, type KeyState, keyStateOf, layoutOf } from './state.js'
import { type PrefixUsage, scanUsage } from './usage.js'

/** The number of keys that a server examines for one page of a scan, approximately. */
const PAGE = 1_000

/** The key to inspect. */
export interface KeyQuery {
  readonly prefix: string
  readonly key: readonly string[]
  readonly tag?: string
  readonly clusterTags?: number
}

/** The search for a key that has no state under the known names. */
export interface KeySearch {
  /** The names of the policies; `undefined` for a single policy's default name. */
  readonly names: readonly string[] | undefined
  /** The time for scanning all keys, in milliseconds; 0 for no scan. */
  readonly scanMs: number
}

/** The result of an inspection. */
export interface KeyInspection {
  readonly prefix: string
  readonly key: string | Readonly<Record<string, string | true>>
  readonly server: string
  /** The server's time. */
  readonly at: string
  readonly states: readonly KeyState[]
  /** The open reservations, and the time until the last one ends. */
  readonly reservations?: { readonly open: number; readonly endInMs: number }
  /** The leases of limiters that used the prefix lately, such as `100ms`. */
  readonly leases?: readonly string[]
  /** The decision on a call of one unit now, by the given policies. */
  readonly decision?: Decision
  /** The number of scanned keys, and whether the scan was complete. */
  readonly scan?: { readonly keys: number; readonly isComplete: boolean }
  /** For a key without state: the usage of the prefix's other keys. */
  readonly usage?: PrefixUsage
}

/** Inspects a key. Changes nothing. */
export async function inspectKey(
  connection: Connection,
  query: KeyQuery,
  config: LimiterConfig | undefined,
  search: KeySearch,
): Promise<KeyInspection> {
  const { prefix } = query
  const key = asUsageError('--key', () => keyOf(query.key, config?.policySet))
  const { states, nowUs, holds } = await statesOf(connection, query, key, config, search.names)
  let found = states
  let scan: KeyInspection['scan']
  const until = performance.now() + search.scanMs
  if (config === undefined && search.scanMs > 0 && !found.some(hasState) && typeof key === 'string') {
    const scanned = await scanFor(connection, prefix, key, search.scanMs)
    scan = { keys: scanned.keys, isComplete: scanned.isComplete }
    found = scanned.states
  }
  const leases = leasesIn(holds.registeredPolicies)
  const isUnused = !found.some(hasState) && holds.holds === 0
  const forMs = Math.max(0, until - performance.now())
  const usage = isUnused && search.scanMs > 0 ? await scanUsage(connection, { prefix, forMs, policies: [] }) : undefined
  const decision = config === undefined || !isWhole(key, config) ? undefined : await peeked(connection, query, config)
  return {
    prefix,
    key,
    server: connection.name,
    at: new Date(nowUs / 1_000).toISOString(),
    states: found.filter(hasState).sort((one, other) => (one.policy < other.policy ? -1 : 1)),
    ...(holds.holds === 0
      ? {}
      : { reservations: { open: holds.holds, endInMs: Math.ceil((holds.holdsUntilUs - holds.nowUs) / 1_000) } }),
    ...(leases.length === 0 ? {} : { leases }),
    ...(decision === undefined ? {} : { decision }),
    ...(scan === undefined ? {} : { scan }),
    ...(usage === undefined ? {} : { usage }),
  }
}

/** The leases in the registered texts of policies. */
function leasesIn(texts: readonly string[]): string[] {
  return [...new Set(texts.flatMap((text) => /\blease=(\w+)/.exec(text)?.[1] ?? []))]
}

/** The states under the names of a key, and its reservations. */
export async function statesOf(
  { reader, masters }: Connection,
  { prefix, tag, clusterTags }: KeyQuery,
  key: KeyInspection['key'],
  config: LimiterConfig | undefined,
  names: readonly string[] | undefined,
): Promise<{ readonly states: KeyState[]; readonly nowUs: number; readonly holds: native.NativeInspectorReply }> {
  const reads: native.NativeInspectorReply[] = []
  for (const [text, policies] of keysOf(key, config, names)) {
    const own = tag === undefined ? {} : { ownTag: tag }
    const tags = clusterTags === undefined || !masters.isCluster ? {} : { tags: clusterTags }
    reads.push(await reader.find({ prefix, policies, key: text, ...own, ...tags }))
  }
  return {
    states: reads.flatMap((read) => read.found.map((stored) => keyStateOf(stored, read.nowUs))),
    nowUs: Math.max(...reads.map((read) => read.nowUs)),
    holds: reads.reduce((most, read) => (read.holds > most.holds ? read : most)),
  }
}

/** The stored keys, each with the names of the policies that count by it. */
export function keysOf(
  key: KeyInspection['key'],
  config: LimiterConfig | undefined,
  names: readonly string[] | undefined,
): (readonly [string, string[]])[] {
  if (config === undefined) {
    return [[key as string, [...(names ?? ['default'])]]]
  }
  const { dimensions, policies } = config.policySet
  const namesOf = (dimension: number) => policies.filter((one) => one.dimension === dimension).map(({ name }) => name)
  if (typeof key === 'string' || dimensions === undefined) {
    return [[key as string, namesOf(0)]]
  }
  return dimensions.flatMap((dimension, index) => {
    const text = dimension === GLOBAL ? GLOBAL : key[dimension]
    return typeof text === 'string' ? [[text, namesOf(index)] as const] : []
  })
}

/** Whether a key has all parts, as a limiter requires. */
function isWhole(key: KeyInspection['key'], { policySet: { dimensions } }: LimiterConfig): boolean {
  return typeof key === 'string' || (dimensions ?? []).every((dimension) => dimension === GLOBAL || dimension in key)
}

/** The decision on a call now, from a limiter's `peek`, which charges nothing. */
async function peeked(connection: Connection, query: KeyQuery, config: LimiterConfig): Promise<Decision> {
  const limiter = connection.limiter(config, query.prefix, query.tag)
  try {
    const key = keyOf(query.key, config.policySet)
    const { [GLOBAL]: _, ...parts } = typeof key === 'string' ? {} : key
    return await limiter.peek((typeof key === 'string' ? key : parts) as string)
  } finally {
    await limiter.close()
  }
}

/** Scans the keys of a prefix for those of one caller, under any policy name. */
async function scanFor(
  { reader, masters }: Connection,
  prefix: string,
  key: string,
  ms: number,
): Promise<{ states: KeyState[]; keys: number; isComplete: boolean }> {
  const until = Date.now() + ms
  const states = new Map<string, KeyState>()
  // The key as encoded in key names, with the special characters of patterns escaped.
  const written = key.replace(/[%{}]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)
  const pattern = `${prefix}:*{*${written.replace(/[\\*?[\]^-]/g, '\\$&')}*`
  let pages = 0
  for (let master = 0; master < masters.names.length; master++) {
    let cursor = '0'
    do {
      const read = await reader.page({ prefix, master, cursor, pattern, count: PAGE })
      pages++
      for (const stored of read.found.filter((one) => one.key === key)) {
        states.set(`${stored.policy}:${stored.tag}:${stored.ownTag}`, keyStateOf(stored, read.nowUs))
      }
      cursor = read.cursor
      if (cursor !== '0' && Date.now() > until) {
        return { states: [...states.values()], keys: pages * PAGE, isComplete: false }
      }
    } while (cursor !== '0')
  }
  return { states: [...states.values()], keys: pages * PAGE, isComplete: true }
}

/**
 * Notes on states that do not belong to the given policies, or that were written with other
 * numbers.
 */
export function mismatches({ states }: KeyInspection, { policySet: { policies } }: LimiterConfig): string[] {
  return states.flatMap((state) => {
    const named = policies.find(({ name }) => name === state.policy)?.policy
    if (named === undefined || named.algorithm !== state.algorithm || layoutOf(named) !== state.layout) {
      return [`it also has state under ${state.policy} (${state.algorithm}), which is not the given policy`]
    }
    const numbers = state.override === undefined ? algorithmOf(named).rate?.(named) : undefined
    const { rate, most } = state
    const isSame =
      numbers === undefined ||
      rate === undefined ||
      (most === numbers.most && rate.units * numbers.periodMs === numbers.units * rate.periodMs)
    return isSame ? [] : [`its state under ${state.policy} was written with other numbers than those given`]
  })
}
