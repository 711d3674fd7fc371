import { isPlain } from '../input/options.js'
import type { MeterSet } from '../policies/meter.js'
import type { ModelCall, ModelCost, TokenUsage } from './options.js'

/** The cost of a call by the names of meters. */
const KNOWN_COSTS: { readonly [meter: string]: (tokens: TokenUsage) => number } = {
  calls: () => 1,
  requests: () => 1,
  tokens: ({ inputTokens, outputTokens }) => inputTokens + outputTokens,
  inputTokens: ({ inputTokens }) => inputTokens,
  outputTokens: ({ outputTokens }) => outputTokens,
  cachedInputTokens: ({ cachedInputTokens }) => cachedInputTokens,
  cacheWriteTokens: ({ cacheWriteTokens }) => cacheWriteTokens,
  reasoningTokens: ({ reasoningTokens }) => reasoningTokens,
}

/** Whether the cost in a meter follows from its name. */
export function hasKnownCost(meter: string): boolean {
  return Object.hasOwn(KNOWN_COSTS, meter)
}

/** What tokens cost. The limiter checks the result of `costOf`, and adds the default costs of other meters. */
export function modelCostOf(
  meters: MeterSet | undefined,
  costOf: ((tokens: TokenUsage, call: ModelCall) => unknown) | undefined,
  tokens: TokenUsage,
  call: ModelCall,
): ModelCost {
  const own = costOf?.(tokens, call)
  if (meters === undefined) {
    return own === undefined ? 1 : (own as number)
  }
  const known = meters.names.filter(hasKnownCost)
  const byDefault = Object.fromEntries(known.map((name) => [name, KNOWN_COSTS[name]?.(tokens)]))
  // A number, or another value that is no plain object, is for the limiter to refuse.
  const isByMeter = typeof own === 'object' && own !== null && isPlain(own)
  return (own === undefined || isByMeter ? { ...byDefault, ...own } : own) as ModelCost
}
