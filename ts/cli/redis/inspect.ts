import type * as native from '../../../generated/native.js'
import type { Decision } from '../../api/decision.js'
import { TollgateError } from '../../api/error.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import { algorithmOf } from '../../policies/policy.js'
import { asUsageError, usageError } from '../failure.js'
import type { Connection } from './connect/connection.js'
import { keyOf, type LimiterConfig, policySetOfTier } from './policies.js'
import { banRuleIn, kindsIn, leasesIn, registeredConfigs, registeredTexts } from './registry.js'
import { scan } from './scan.js'
import { type GivenKey, keysOf, type SoughtKey, shortestTexts, soughtKeyOf } from './sought-key.js'
import { hasState, type KeyState, keyStateOf, layoutOf } from './state.js'
import { type PrefixUsage, scanUsage } from './usage.js'

export interface KeyQuery {
  readonly prefix: string
  readonly key: readonly string[]
  readonly tag?: string
  readonly tier?: string
  readonly clusterTags?: number
}

export interface KeySearch {
  /** The policies of options; otherwise the registered ones are used. */
  readonly given: LimiterConfig | undefined
  /** The names of the policies, if they are given. */
  readonly names?: readonly string[] | undefined
  /** The time for scanning all keys for one without state under the known names; 0 for no scan. */
  readonly scanMs: number
}

/** What a key holds beside its states: `reset` removes it. */
export interface HeldByKey {
  /** Open reservations, and the time until the last one ends. */
  readonly reservations?: { readonly open: number; readonly endInMs: number }
  /** Remembered ids of calls, and the time until the last one is forgotten. */
  readonly ids?: { readonly remembered: number; readonly endInMs: number }
}

/** The result of an inspection, as `--format json` prints it. */
export interface KeyInspection extends HeldByKey {
  readonly prefix: string
  readonly key: GivenKey
  readonly server: string
  readonly at: string
  readonly states: readonly KeyState[]
  /** The leases of limiters that used the prefix lately, such as `100ms`. */
  readonly leases?: readonly string[]
  /** When limiters ban keys, as they have registered it. */
  readonly banRule?: string
  /** The names of the tiers, if the limiter has any. */
  readonly tiers?: readonly string[]
  /** The origin of the policies: the options, or the limiters' registration; absent if they are unknown. */
  readonly policiesFrom?: 'options' | 'registry'
  readonly decision?: Decision
  /** Whether a scan for the key, which had no state under the known names, covered all keys. */
  readonly scan?: { readonly isComplete: boolean }
  /** For a key without state: the usage of the prefix's other keys. */
  readonly usage?: PrefixUsage
}

/** Inspects a key. Changes nothing. */
export async function inspectKey(
  connection: Connection,
  query: KeyQuery,
  { given, names, scanMs }: KeySearch,
): Promise<KeyInspection> {
  const { prefix } = query
  const texts = await registeredTexts(connection, prefix)
  const configs = given === undefined ? registeredConfigs(texts, prefix) : [given]
  const config = given ?? (kindsIn(texts).length === 1 ? configs.at(-1) : undefined)
  const sought = asUsageError('--key', () => soughtKeyOf(query.key, configs, names))
  const until = performance.now() + scanMs
  const read = await readKey(connection, query, sought)
  let { states, held } = read
  let search: KeyInspection['scan']
  const isFound = () => states.some(hasState) || holdsAny(held)
  if (!isFound() && scanMs > 0) {
    const found = await scanFor(connection, prefix, sought, configs, scanMs)
    search = { isComplete: found.isComplete }
    states = found.states
    held = found.held
  }
  const isUnknown = !isFound() && scanMs > 0 && (given !== undefined || configs.length === 0)
  const forMs = Math.max(0, until - performance.now())
  const usage = isUnknown ? await scanUsage(connection, { prefix, forMs }) : undefined
  const decision = await decisionOn(connection, query, config, states, given === undefined)
  const [leases, banRule, tiers] = [leasesIn(texts), banRuleIn(texts), config?.tiers ?? []]
  return {
    prefix,
    key: sought.key,
    server: connection.name,
    at: new Date(read.nowUs / 1_000).toISOString(),
    states: states
      .filter(hasState)
      .map((state) => ({ ...state, ...(config === undefined ? {} : placeIn(config, state)) }))
      .sort((one, other) => (one.policy < other.policy ? -1 : 1)),
    ...held,
    ...(leases.length === 0 ? {} : { leases }),
    ...(banRule === undefined ? {} : { banRule }),
    ...(tiers.length === 0 ? {} : { tiers }),
    ...(config === undefined ? {} : { policiesFrom: given === undefined ? 'registry' : 'options' }),
    ...(decision === undefined ? {} : { decision }),
    ...(search === undefined ? {} : { scan: search }),
    ...(usage === undefined ? {} : { usage }),
  }
}

/** Reads the states of a key under all its names, its open reservations and its remembered ids. */
export async function readKey(
  { reader, masters }: Connection,
  { prefix, tag, clusterTags }: KeyQuery,
  { lookups }: Pick<SoughtKey, 'lookups'>,
) {
  const reads: native.NativeInspectorReply[] = []
  const own = tag === undefined ? {} : { ownTag: tag }
  const tags = clusterTags === undefined || !masters.isCluster ? {} : { tags: clusterTags }
  for (const [key, policies] of lookups) {
    reads.push(await reader.find({ prefix, policies: [...policies], key, ...own, ...tags }))
  }
  return {
    states: reads.flatMap((read) => read.found.map((stored) => keyStateOf(stored, read.nowUs))),
    held: heldIn(
      reads.flatMap((read) => read.held),
      Math.max(...reads.map((read) => read.nowUs)),
    ),
    nowUs: Math.max(...reads.map((read) => read.nowUs)),
  }
}

/** What one key holds. Several of its stored keys may hold the same. */
function heldIn(held: readonly native.NativeHeldKey[], nowUs: number): HeldByKey {
  const inMs = (untilUs: number) => Math.ceil((untilUs - nowUs) / 1_000)
  const [reservations] = [...held].sort((one, other) => other.holds - one.holds)
  const [ids] = [...held].sort((one, other) => other.calls - one.calls)
  return {
    ...(reservations === undefined || reservations.holds === 0
      ? {}
      : { reservations: { open: reservations.holds, endInMs: inMs(reservations.holdsUntilUs) } }),
    ...(ids === undefined || ids.calls === 0
      ? {}
      : { ids: { remembered: ids.calls, endInMs: inMs(ids.callsUntilUs) } }),
  }
}

export function holdsAny({ reservations, ids }: HeldByKey): boolean {
  return reservations !== undefined || ids !== undefined
}

/** Scans the keys of a prefix for a key under any policy and any hash tag. */
async function scanFor(
  connection: Connection,
  prefix: string,
  sought: SoughtKey,
  configs: readonly LimiterConfig[],
  forMs: number,
) {
  const until = performance.now() + forMs
  const keys = new Set(sought.lookups.map(([text]) => text))
  const states = new Map<string, KeyState>()
  const held: native.NativeHeldKey[] = []
  let [isComplete, nowUs] = [true, 0]
  for (const text of shortestTexts(sought)) {
    const pattern = `${prefix}:*{*${escapedForPattern(text)}*`
    const request = { prefix, pattern, forMs: Math.max(0, until - performance.now()), heldKeys: [...keys] }
    const extent = await scan(connection, request, (page) => {
      nowUs = page.nowUs
      for (const stored of page.found) {
        if (keys.has(stored.key) && isOfKey(stored, sought.key, configs)) {
          states.set(`${stored.policy}:${stored.tag}:${stored.ownTag}:${stored.key}`, keyStateOf(stored, nowUs))
        }
      }
      held.push(...page.held)
      return false
    })
    isComplete &&= extent.isComplete
  }
  return { states: [...states.values()], held: heldIn(held, nowUs), isComplete }
}

/** A key as key names contain it, with the special characters of patterns escaped. */
function escapedForPattern(key: string): string {
  const written = key.replace(/[%{}]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)
  return written.replace(/[\\*?[\]^-]/g, '\\$&')
}

/** Whether a stored key with a sought text belongs to the right key dimension. */
function isOfKey(
  { policy, key }: native.NativeStoredKey,
  sought: GivenKey,
  configs: readonly LimiterConfig[],
): boolean {
  const owners = configs.filter(({ policySet }) => policySet.policies.some(({ name }) => name === policy))
  const isKeyOf = (config: LimiterConfig) =>
    keysOf(sought, config).some(([text, names]) => text === key && names.includes(policy))
  return owners.length === 0 || owners.some(isKeyOf)
}

/** A state's key dimension, and the tier whose numbers it has, if it is the only one. */
function placeIn(
  { policySet, policySets, tiers }: LimiterConfig,
  state: KeyState,
): Pick<KeyState, 'dimension' | 'tier'> {
  const index = policySet.policies.findIndex(({ name }) => name === state.policy)
  const dimension = policySet.dimensions?.[policySet.policies[index]?.dimension ?? -1]
  const fitting = state.rate === undefined ? [] : policySets.filter((own) => hasNumbersOf(own, state) === true)
  const tier = tiers.length > 1 && fitting.length === 1 ? fitting[0]?.tier : undefined
  return { ...(dimension === undefined ? {} : { dimension }), ...(tier === undefined ? {} : { tier }) }
}

function isWhole(key: GivenKey, { policySet: { dimensions } }: LimiterConfig): boolean {
  return typeof key === 'string' || (dimensions ?? []).every((dimension) => dimension === GLOBAL || dimension in key)
}

/**
 * The decision on a call now, from a limiter's `peek`, which charges nothing; `undefined` if the policies, the tier or
 * the hash tag of calls on the key are unknown. If it `isOptional`, a user without the permissions for it gets none.
 */
async function decisionOn(
  connection: Connection,
  { prefix, key: given, tag, tier, clusterTags }: KeyQuery,
  config: LimiterConfig | undefined,
  states: readonly KeyState[],
  isOptional: boolean,
): Promise<Decision | undefined> {
  if (config === undefined) {
    if (tier !== undefined) {
      throw usageError(`--tier: the policies of ${prefix} are unknown: give --policies`)
    }
    return undefined
  }
  const policySet = policySetOfTier(config, tier)
  const key = asUsageError('--key', () => keyOf(given, config.policySet))
  const tags = new Set([...states.filter(hasState).map((state) => state.tag), ...(tag === undefined ? [] : [tag])])
  const isShared = clusterTags === undefined && states.some(({ sharesTag }) => sharesTag === true)
  if (policySet === undefined || !isWhole(key, config) || tags.size > 1 || isShared) {
    return undefined
  }
  const [ownTag] = tags
  const limiter = connection.limiter(config, prefix, ownTag)
  try {
    const { [GLOBAL]: _, ...parts } = typeof key === 'string' ? {} : key
    const options = tier === undefined ? {} : { tier }
    return await limiter.peek((typeof key === 'string' ? key : parts) as string, options as object)
  } catch (error) {
    if (isOptional && TollgateError.is(error) && error.code === 'STORE_ERROR') {
      return undefined
    }
    throw error
  } finally {
    await limiter.close()
  }
}

/** Notes on states that do not belong to the given policies, or that were written with other numbers. */
export function mismatches({ states }: KeyInspection, { policySet, policySets }: LimiterConfig): string[] {
  return states.flatMap((state) => {
    const named = policySet.policies.find(({ name }) => name === state.policy)?.policy
    if (named === undefined || named.algorithm !== state.algorithm || layoutOf(named) !== state.layout) {
      return [`it also has state under ${state.policy} (${state.algorithm}), which is not the given policy`]
    }
    const isSame = state.override !== undefined || policySets.some((own) => hasNumbersOf(own, state) !== false)
    return isSame ? [] : [`its state under ${state.policy} was written with other numbers than those given`]
  })
}

/** Whether a state has the numbers of its policy in a set; `undefined` if it contains none. */
function hasNumbersOf({ policies }: LimiterConfig['policySet'], state: KeyState): boolean | undefined {
  const { limit, rate } = state
  const policy = policies.find(({ name }) => name === state.policy)?.policy
  const numbers = policy === undefined ? undefined : algorithmOf(policy).rate?.(policy)
  return numbers === undefined || rate === undefined
    ? undefined
    : limit === numbers.limit && rate.units * numbers.periodMs === numbers.units * rate.periodMs
}
