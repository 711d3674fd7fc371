import { GLOBAL } from '../../policies/key-dimension.js'
import { type CommandFailure, fromUniqueEntries, usageError } from '../failure.js'
import { keyGivenTwice, keyOf, type LimiterConfig } from './policies.js'

/** A key as calls pass it. */
export type GivenKey = string | Readonly<Record<string, string | true>>

/** A stored key, and the names of the policies that may count by it. */
export type KeyLookup = readonly [key: string, policies: readonly string[]]

export interface SoughtKey {
  readonly key: GivenKey
  readonly lookups: readonly KeyLookup[]
}

/**
 * The stored keys of a limiter's key, each with the names of the policies that count by it. A call on a key also counts
 * by the key of all calls. A change of a key (`isChange`) does not concern that key unless it is given.
 */
export function keysOf(key: GivenKey, { policySet }: LimiterConfig, isChange = false): KeyLookup[] {
  const { dimensions, policies } = policySet
  const namesOf = (dimension: number) => policies.filter((one) => one.dimension === dimension).map(({ name }) => name)
  if (typeof key === 'string' || dimensions === undefined) {
    return [[key as string, namesOf(0)]]
  }
  return dimensions.flatMap((dimension, index) => {
    const text = dimension === GLOBAL && (!isChange || key[GLOBAL] === true) ? GLOBAL : key[dimension]
    return typeof text === 'string' ? [[text, namesOf(index)] as const] : []
  })
}

/**
 * The key of `--key` under the policies that limiters may have, and how each of them stores it. Throws if it is no key
 * under any of them. Without `names` the names of policies are those of `configs`.
 */
export function soughtKeyOf(
  given: readonly string[],
  configs: readonly LimiterConfig[],
  names: readonly string[] | undefined,
): SoughtKey {
  if (configs.length === 0) {
    const { key, texts } = keyWithoutPolicies(given)
    const policies = [...new Set(names ?? ['default'])]
    return { key, lookups: [...new Set(texts)].map((text) => [text, policies]) }
  }
  let [failure, key]: [unknown, GivenKey | undefined] = [undefined, undefined]
  const policies = new Map<string, Set<string>>()
  for (const config of configs) {
    try {
      key = keyOf(given, config.policySet)
      for (const [text, own] of keysOf(key, config)) {
        policies.set(text, new Set([...(policies.get(text) ?? []), ...(names ?? own)]))
      }
    } catch (error) {
      failure = error
    }
  }
  if (key === undefined) {
    throw failure as CommandFailure
  }
  return { key, lookups: [...policies].map(([text, own]) => [text, [...own]]) }
}

/** A key under unknown policies. `ip=192.0.2.1` is a key as it is, or the key `192.0.2.1` of a policy with a `per`. */
function keyWithoutPolicies(given: readonly string[]): { readonly key: GivenKey; readonly texts: readonly string[] } {
  const parts = given.map((text) => /^([^=]+)=(.+)$/s.exec(text) ?? undefined)
  const texts = [...given, ...parts.flatMap((part) => part?.[2] ?? [])]
  const [only = '', ...more] = given
  if (more.length === 0) {
    return { key: only, texts }
  }
  const entries = given.map((text, index): readonly [string, string | true] => {
    const [, dimension = '', key = ''] = parts[index] ?? []
    if (dimension === '' && text !== GLOBAL) {
      throw usageError('--key is given twice: only policies with a per take several')
    }
    return text === GLOBAL ? [GLOBAL, true] : [dimension, key]
  })
  return { key: fromUniqueEntries(entries, keyGivenTwice), texts }
}

/** The texts that the stored names of all sought texts contain: none contains another of them. */
export function shortestTexts({ lookups }: SoughtKey): string[] {
  const texts = [...new Set(lookups.map(([text]) => text))]
  return texts.filter((text) => !texts.some((other) => other !== text && text.includes(other)))
}
