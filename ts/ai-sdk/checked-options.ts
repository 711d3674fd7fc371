import { canSettle, unsettledError } from '../api/can-settle.js'
import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import type { Reservation } from '../api/reservation.js'
import { clockOf } from '../input/clock.js'
import { type Duration, MAX_WAIT_MS, wholeMillis } from '../input/duration.js'
import {
  functionOf,
  invalid,
  oneOf,
  optionalFunction,
  optionsOf,
  shown,
  trueOrFalse,
  wholeNumber,
} from '../input/options.js'
import { waitingTimeOf } from '../platform/waiting-time.js'
import { Warnings } from '../platform/warning.js'
import { type MeterSet, meterSetOf } from '../policies/meter.js'
import type { Policy } from '../policies/policy.js'
import type { PolicySet } from '../policies/policy-set.js'
import { hasKnownCost } from './cost.js'
import type { ModelCall, ModelCharge, ModelCost, OutputEstimator, TokenEstimate, TokenUsage } from './options.js'

const OPTIONS = [
  'limiter',
  'key',
  'tier',
  'estimate',
  'maxOutputTokens',
  'costOf',
  'maxWait',
  'ttl',
  'onAbort',
  'onError',
  'pause',
  'onCharged',
  'clock',
] as const

const UNREPORTED = ['estimate', 'streamed', 'nothing'] as const

const DEFAULT_OUTPUT_TOKENS = 1_000
const MIN_TTL_MS = 1_000
const MAX_TTL_MS = 86_400_000

/** The methods of a limiter, as the middleware calls them. */
export interface AnyModelLimiter {
  readonly policies: { readonly [name: string]: Policy }
  reserve(key: unknown, units: ModelCost, options: unknown): Promise<ModelReservation>
  block(key: unknown, duration: Duration): Promise<'store' | 'fallback' | false>
}

/** A reservation of any limiter. */
export type ModelReservation = Reservation<string, string> | { readonly allowed: false; readonly decision: Decision }

export type CheckedModelOptions = ReturnType<typeof modelOptionsOf>

/** Checks the options of `rateLimit`. */
export function modelOptionsOf(value: unknown) {
  const options = optionsOf('INVALID_OPTION', 'rateLimit', value, OPTIONS)
  const { limiter, key, tier, estimate, pause = true, onAbort = 'estimate', onError = 'nothing' } = options
  if (!isLimiter(limiter)) {
    throw invalid('INVALID_OPTION', 'limiter', 'must be a RateLimiter', limiter)
  }
  const policies = Object.entries(limiter.policies)
  const policySet = { policies: policies.map(([name, policy]) => ({ name, policy })) } as unknown as PolicySet
  if (!canSettle(policySet)) {
    throw unsettledError('rateLimit', policySet)
  }
  const meters = meterSetOf(policies)
  const costOf = optionalFunction<(tokens: TokenUsage, call: ModelCall) => unknown>('costOf', options.costOf)
  if (meters !== undefined && costOf === undefined) {
    checkMeters(meters)
  }
  const { maxOutputTokens = DEFAULT_OUTPUT_TOKENS, maxWait = 0, ttl = '2m' } = options
  return {
    limiter,
    meters,
    keyOf: typeof key === 'function' ? functionOf<(call: ModelCall) => unknown>('key', key) : () => key,
    tierOf: typeof tier === 'function' ? functionOf<(call: ModelCall) => unknown>('tier', tier) : () => tier,
    estimate: estimateOf(estimate),
    maxOutputTokens: wholeNumber('INVALID_OPTION', 'maxOutputTokens', maxOutputTokens),
    costOf,
    maxWaitMs: wholeMillis('maxWait', maxWait, 0, MAX_WAIT_MS),
    ttlMs: wholeMillis('ttl', ttl, MIN_TTL_MS, MAX_TTL_MS),
    onAbort: oneOf('INVALID_OPTION', 'onAbort', onAbort, UNREPORTED),
    onError: oneOf('INVALID_OPTION', 'onError', onError, UNREPORTED),
    pauses: trueOrFalse('INVALID_OPTION', 'pause', pause),
    onCharged: optionalFunction<(charge: ModelCharge) => void>('onCharged', options.onCharged),
    time: waitingTimeOf(clockOf('clock', options.clock)),
    warnings: new Warnings(),
  }
}

function checkMeters({ names, defaultCosts }: MeterSet): void {
  const unknown = names.find((name, index) => defaultCosts[index] === undefined && !hasKnownCost(name))
  if (unknown !== undefined) {
    const rule = `must be given: the cost of a call in ${shown(unknown)} is not known`
    throw new TollgateError('INVALID_OPTION', `costOf ${rule}; return it, or give its policies a defaultCost`)
  }
}

function isLimiter(value: unknown): value is AnyModelLimiter {
  const limiter = value as Partial<AnyModelLimiter> | null | undefined
  return typeof limiter?.reserve === 'function' && typeof limiter.block === 'function' && limiter.policies !== undefined
}

function estimateOf(value: unknown): OutputEstimator | ((call: ModelCall) => TokenEstimate) | undefined {
  const estimator = value as Partial<OutputEstimator> | null | undefined
  const isEstimator = typeof estimator?.estimate === 'function' && typeof estimator.record === 'function'
  if (value === undefined || typeof value === 'function' || isEstimator) {
    return value as OutputEstimator | ((call: ModelCall) => TokenEstimate) | undefined
  }
  throw invalid('INVALID_OPTION', 'estimate', 'must be a function or a UsageEstimator', value)
}

/** The key and the tier of a call. */
export async function callerOf(
  { keyOf, tierOf }: CheckedModelOptions,
  call: ModelCall,
): Promise<{ readonly key: unknown; readonly tier: unknown }> {
  const own = call.params.providerOptions?.['tollgate']
  const given = optionsOf('INVALID_OPTION', 'providerOptions.tollgate', own ?? {}, ['key', 'tier'])
  const key = given.key ?? (await keyOf(call))
  if (key === undefined) {
    const rule = 'must be given, to rateLimit or as providerOptions.tollgate.key of the call'
    throw invalid('INVALID_KEY', 'key', rule, key)
  }
  return { key, tier: given.tier ?? (await tierOf(call)) }
}
