/** The addon's decisions on traffic, which the playground must show. */

import { ALGORITHMS, type AlgorithmName, functionOf } from '../../examples/playground/model/algorithms.js'
import { type FieldValues, optionsFrom } from '../../examples/playground/model/fields.js'
import { policyOf as typedPolicy } from '../../examples/playground/model/state.js'
import type { Traffic } from '../../examples/playground/model/trace.js'
import { MemoryStore, type Policy, RateLimiter } from '../../ts/index.js'
import { policyOf } from '../../ts/policies/policy.js'

/** The numbers of admitted and refused calls of a policy. */
export interface Counts {
  readonly admitted: number
  readonly refused: number
}

/** A policy with the values of its form, made by the package's own factory. */
export function nativePolicy(name: AlgorithmName, values: FieldValues = {}): Policy {
  const options = optionsFrom(ALGORITHMS[name].tree, typedPolicy(name, values).values)
  return policyOf({ algorithm: functionOf(name), ...options })
}

/** Sends calls at times in milliseconds. */
export function nativeCounts(
  policy: Policy,
  calls: readonly { readonly atMs: number; readonly key?: string; readonly cost?: number }[],
): Counts {
  let now = 0
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock: () => now }) })
  let admitted = 0
  for (const { atMs, key = 'client', cost = 1 } of calls) {
    now = atMs
    admitted += Number(limiter.takeSync(key, cost).allowed)
  }
  return { admitted, refused: calls.length - admitted }
}

/** The times of the playground's own traffic. */
export function callsOf({ calls, startMs }: Traffic) {
  return calls.map(({ at, key, cost }) => ({ atMs: startMs + at / 1_000, key, cost }))
}
