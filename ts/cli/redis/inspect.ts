import type * as native from '../../../native.js'
import type { Decision } from '../../api/decision.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import type { Policy } from '../../policies/policy.js'
import { checked } from '../failure.js'
import type { Connection } from './connect/connection.js'
import { type Enforced, keyOf } from './policies.js'
import { counts, type KeyState, keyStateOf, layoutOf } from './state.js'
import { type Usage, usageOf } from './usage.js'

/** About how many keys a server looks at for one page of a scan. */
const PAGE = 1_000

/** Whose key is looked at. */
export interface Wanted {
  readonly prefix: string
  readonly key: readonly string[]
  readonly tag?: string
  readonly clusterTags?: number
}

/** How other keys are looked for, if nothing is found under the names that are known. */
export interface Search {
  /** The names of policies; without, the one of a single policy. */
  readonly names: readonly string[] | undefined
  /** For how long all keys may be gone through; 0 if they are not. */
  readonly scanMs: number
}

/** What was seen of a key. */
export interface Look {
  readonly prefix: string
  readonly key: string | Readonly<Record<string, string | true>>
  readonly server: string
  /** The server's time. */
  readonly at: string
  readonly states: readonly KeyState[]
  /** The reservations that are open, and when the last of them ends. */
  readonly reservations?: { readonly open: number; readonly endInMs: number }
  /** What a call of one unit would be told now, by the policies given. */
  readonly decision?: Decision
  /** What went through all keys, and whether it came to the end. */
  readonly scan?: { readonly keys: number; readonly isComplete: boolean }
  /** If nothing is kept of the key: what the other keys of the prefix show. */
  readonly usage?: Usage
}

/** Looks at a key, and changes nothing. */
export async function look(
  connection: Connection,
  wanted: Wanted,
  enforced: Enforced | undefined,
  search: Search,
): Promise<Look> {
  const { prefix } = wanted
  const key = checked('--key', () => keyOf(wanted.key, enforced?.compound))
  const { states, nowUs, holds } = await statesOf(connection, wanted, key, enforced, search.names)
  let found = states
  let scan: Look['scan']
  const until = performance.now() + search.scanMs
  if (enforced === undefined && search.scanMs > 0 && !found.some(counts) && typeof key === 'string') {
    const scanned = await scanFor(connection, prefix, key, search.scanMs)
    scan = { keys: scanned.keys, isComplete: scanned.isComplete }
    found = scanned.states
  }
  const isNothing = !found.some(counts) && holds.holds === 0
  const forMs = Math.max(0, until - performance.now())
  const usage = isNothing && search.scanMs > 0 ? await usageOf(connection, { prefix, forMs, policies: [] }) : undefined
  const decision =
    enforced === undefined || !isWhole(key, enforced) ? undefined : await peeked(connection, wanted, enforced)
  return {
    prefix,
    key,
    server: connection.name,
    at: new Date(nowUs / 1_000).toISOString(),
    states: found.filter(counts).sort((one, other) => (one.policy < other.policy ? -1 : 1)),
    ...(holds.holds === 0
      ? {}
      : { reservations: { open: holds.holds, endInMs: Math.ceil((holds.holdsUntilUs - holds.nowUs) / 1_000) } }),
    ...(decision === undefined ? {} : { decision }),
    ...(scan === undefined ? {} : { scan }),
    ...(usage === undefined ? {} : { usage }),
  }
}

/** What is there under the names of a key, and of its reservations. */
export async function statesOf(
  { reader, masters }: Connection,
  { prefix, tag, clusterTags }: Wanted,
  key: Look['key'],
  enforced: Enforced | undefined,
  names: readonly string[] | undefined,
): Promise<{ readonly states: KeyState[]; readonly nowUs: number; readonly holds: native.RedisRead }> {
  const reads: native.RedisRead[] = []
  for (const [text, policies] of keysOf(key, enforced, names)) {
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
  key: Look['key'],
  enforced: Enforced | undefined,
  names: readonly string[] | undefined,
): (readonly [string, string[]])[] {
  if (enforced === undefined) {
    return [[key as string, [...(names ?? ['default'])]]]
  }
  const { subjects, policies } = enforced.compound
  const namesOf = (subject: number) => policies.filter((one) => one.subject === subject).map(({ name }) => name)
  if (typeof key === 'string' || subjects === undefined) {
    return [[key as string, namesOf(0)]]
  }
  return subjects.flatMap((subject, index) => {
    const text = subject === GLOBAL ? GLOBAL : key[subject]
    return typeof text === 'string' ? [[text, namesOf(index)] as const] : []
  })
}

/** Whether a key has all parts, so that a limiter can be asked about it. */
function isWhole(key: Look['key'], { compound: { subjects } }: Enforced): boolean {
  return typeof key === 'string' || (subjects ?? []).every((subject) => subject === GLOBAL || subject in key)
}

/** What a call would be told: asked of a limiter, which charges nothing for it. */
async function peeked(connection: Connection, wanted: Wanted, enforced: Enforced): Promise<Decision> {
  const limiter = connection.limiter(enforced, wanted.prefix, wanted.tag)
  try {
    const key = keyOf(wanted.key, enforced.compound)
    const { [GLOBAL]: _, ...parts } = typeof key === 'string' ? {} : key
    return await limiter.peek((typeof key === 'string' ? key : parts) as string)
  } finally {
    await limiter.close()
  }
}

/** Goes through the keys of a prefix for those of one caller, whatever their policies' names. */
async function scanFor(
  { reader, masters }: Connection,
  prefix: string,
  key: string,
  ms: number,
): Promise<{ states: KeyState[]; keys: number; isComplete: boolean }> {
  const until = Date.now() + ms
  const states = new Map<string, KeyState>()
  // As it stands in names; what would mean something in a pattern is quoted.
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

/** What is worth saying of states that the policies given do not decide by, or were written by others. */
export function mismatches({ states }: Look, { compound: { policies } }: Enforced): string[] {
  return states.flatMap((state) => {
    const named = policies.find(({ name }) => name === state.policy)?.policy
    if (named === undefined || named.algorithm !== state.algorithm || layoutOf(named) !== state.layout) {
      return [`it also has state under ${state.policy} (${state.algorithm}), which is not the policy given`]
    }
    const numbers = state.override === undefined ? ratesOf(named) : undefined
    const { rate, most } = state
    const isSame =
      numbers === undefined ||
      rate === undefined ||
      (most === numbers.most && rate.units * numbers.periodMs === numbers.units * rate.periodMs)
    return isSame ? [] : [`its state under ${state.policy} was written with other numbers than those given`]
  })
}

/** The numbers that a policy's states carry. */
function ratesOf(policy: Policy): { units: number; periodMs: number; most: number } | undefined {
  switch (policy.algorithm) {
    case 'gcra':
      return { units: policy.limit, periodMs: policy.period as number, most: policy.burst }
    case 'leakyBucket':
      return { units: policy.leak.units, periodMs: policy.leak.every as number, most: policy.capacity }
    case 'tokenBucket':
      return {
        units: policy.refill.tokens,
        periodMs: policy.refill.every as number,
        most: policy.capacity + policy.debt,
      }
    default:
      return undefined
  }
}
