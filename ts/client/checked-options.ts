import { canSettle, unsettledError } from '../api/can-settle.js'
import { costsOf, mostByMeter, plainUnitsOf } from '../api/metered-units.js'
import { signalOf } from '../api/wait.js'
import { clockOf } from '../input/clock.js'
import { millisOfOption, wholeMillis } from '../input/duration.js'
import { invalid, oneOf, optionalFunction, optionsOf, trueOrFalse, wholeNumber } from '../input/options.js'
import { waitingTimeOf } from '../platform/waiting-time.js'
import { meterSetOf } from '../policies/meter.js'
import type { Policy } from '../policies/policy.js'
import type { PolicySet } from '../policies/policy-set.js'
import type { ClientLimiter, RefusalOf, ShouldRetry, UsageNumbers } from './options.js'
import type { TurnCost } from './turn-need.js'

/** A day. */
const MAX_MS = 86_400_000

export type CheckedClientOptions = ReturnType<typeof clientOptionsOf>

const CLIENT_OPTIONS = [
  'limiter',
  'key',
  'maxWait',
  'maxQueued',
  'ageing',
  'attemptTimeout',
  'retries',
  'shouldRetry',
  'refusalOf',
  'pauseWhenEmpty',
  'holdUntil',
  'usageOf',
  'fetch',
  'clock',
] as const

export function clientOptionsOf(value: unknown) {
  const options = optionsOf('INVALID_OPTION', 'OutgoingClient', value, CLIENT_OPTIONS)
  const { limiter, key, maxWait = 60_000, maxQueued = 1_000, ageing = '1s', clock } = options
  const { pauseWhenEmpty = false, holdUntil = 'body' } = options
  if (!isLimiter(limiter)) {
    throw invalid('INVALID_OPTION', 'limiter', 'must be a RateLimiter', limiter)
  }
  const usageOf = optionalFunction<(usage: UsageNumbers) => unknown>('usageOf', options.usageOf)
  if (usageOf !== undefined) {
    checkUsageOf(limiter.policies, holdUntil)
  }
  return {
    limiter,
    key,
    maxWaitMs: waitOf(maxWait),
    maxQueued: wholeNumber('INVALID_OPTION', 'maxQueued', maxQueued),
    ageingMs: ageingOf(ageing),
    attemptTimeoutMs: timeoutOf(options.attemptTimeout),
    retries: retriesOf(options.retries),
    shouldRetry: optionalFunction<ShouldRetry>('shouldRetry', options.shouldRetry),
    refusalOf: optionalFunction<RefusalOf>('refusalOf', options.refusalOf),
    pauseWhenEmpty: trueOrFalse('INVALID_OPTION', 'pauseWhenEmpty', pauseWhenEmpty),
    /** Whether `fetch` holds permits until the body has ended. */
    holdsBodies: oneOf('INVALID_OPTION', 'holdUntil', holdUntil, ['body', 'headers']) === 'body',
    usageOf,
    /** `undefined`: the platform's function. */
    fetch: optionalFunction<(input: unknown, init: unknown) => Promise<unknown>>('fetch', options.fetch),
    time: waitingTimeOf(clockOf('clock', clock)),
  }
}

function checkUsageOf(policies: { readonly [name: string]: Policy }, holdUntil: unknown): void {
  const list = Object.entries(policies).map(([name, policy]) => ({ name, policy }))
  const policySet = { policies: list } as unknown as PolicySet
  if (!canSettle(policySet)) {
    throw unsettledError('usageOf', policySet)
  }
  if (holdUntil === 'headers') {
    throw invalid('INVALID_OPTION', 'holdUntil', "must be 'body' beside usageOf, which reads the body", holdUntil)
  }
}

function ageingOf(value: unknown): number {
  const millis = millisOfOption('INVALID_OPTION', 'ageing', value)
  if (millis < 1 || millis > MAX_MS) {
    throw invalid('INVALID_OPTION', 'ageing', 'must be from a millisecond to a day', value)
  }
  return millis
}

function timeoutOf(value: unknown): number | undefined {
  return value === undefined ? undefined : wholeMillis('attemptTimeout', value, 1, MAX_MS)
}

function isLimiter(value: unknown): value is ClientLimiter<unknown, string, string, TurnCost> {
  const limiter = value as Partial<ClientLimiter> | null | undefined
  return typeof limiter?.take === 'function' && typeof limiter.block === 'function' && limiter.policies !== undefined
}

function waitOf(value: unknown): number {
  return wholeMillis('maxWait', value, 0, MAX_MS)
}

function retriesOf(value: unknown) {
  const options = typeof value === 'number' ? { limit: value } : (value ?? {})
  const names = ['limit', 'minDelay', 'maxDelay', 'budget'] as const
  const checked = optionsOf('INVALID_OPTION', 'retries', options, names)
  const { limit = 2, minDelay = '500ms', maxDelay = '30s', budget = 0.1 } = checked
  const retries = {
    limit: wholeNumber('INVALID_OPTION', 'retries.limit', limit, 0, 100),
    minDelay: millisOfOption('INVALID_OPTION', 'retries.minDelay', minDelay),
    maxDelay: millisOfOption('INVALID_OPTION', 'retries.maxDelay', maxDelay),
    budget: budgetOf(budget),
  }
  if (retries.maxDelay < retries.minDelay || retries.maxDelay > MAX_MS) {
    throw invalid('INVALID_OPTION', 'retries.maxDelay', 'must be at least minDelay and at most a day', maxDelay)
  }
  return retries
}

function budgetOf(value: unknown): number | false {
  const isShare = typeof value === 'number' && value > 0 && value < Number.POSITIVE_INFINITY
  if (!isShare && value !== false) {
    throw invalid('INVALID_OPTION', 'retries.budget', 'must be a number above 0, or false', value)
  }
  return value
}

export type CheckedCall = ReturnType<typeof scheduleOptionsOf>

type CallDefaults = Pick<CheckedClientOptions, 'limiter' | 'key' | 'maxWaitMs' | 'attemptTimeoutMs' | 'shouldRetry'> & {
  readonly isIdempotent: boolean
}

const CALL_OPTIONS = [
  'key',
  'priority',
  'cost',
  'signal',
  'maxWait',
  'tier',
  'isIdempotent',
  'attemptTimeout',
  'shouldRetry',
] as const

export function scheduleOptionsOf(where: string, value: unknown, defaults: CallDefaults) {
  const options = optionsOf('INVALID_OPTION', where, value ?? {}, CALL_OPTIONS)
  const { key = defaults.key, priority = 0, cost, signal, tier } = options
  if (key === undefined) {
    throw invalid('INVALID_KEY', 'key', `must be given, to ${where} or to the client`, key)
  }
  return {
    key,
    priority: wholeNumber('INVALID_OPTION', 'priority', priority, -100, 100),
    cost: costIn(defaults.limiter, tier, cost),
    /** Without the meters that the call leaves out. */
    namedCost: cost,
    signal: signalOf(signal),
    maxWaitMs: waitOf(options.maxWait ?? defaults.maxWaitMs),
    tier: tier as string | undefined,
    isIdempotent: trueOrFalse('INVALID_OPTION', 'isIdempotent', options.isIdempotent ?? defaults.isIdempotent),
    attemptTimeoutMs: timeoutOf(options.attemptTimeout) ?? defaults.attemptTimeoutMs,
    shouldRetry: optionalFunction<ShouldRetry>('shouldRetry', options.shouldRetry) ?? defaults.shouldRetry,
  }
}

/** The cost of a turn. Meters that it leaves out get their default costs. */
function costIn({ policies, tiers }: CallDefaults['limiter'], tier: unknown, cost: unknown): TurnCost {
  // The limiter reports an unknown tier.
  const isKnown = typeof tier === 'string' && Object.hasOwn(tiers, tier)
  const own = isKnown ? (tiers as { readonly [tier: string]: typeof policies })[tier] : policies
  const meters = meterSetOf(Object.entries<Policy>(own ?? policies))
  return meters === undefined
    ? plainUnitsOf('cost', cost === undefined ? 1 : cost)
    : mostByMeter(meters, costsOf(meters, cost))
}

export function closeTimeoutOf(value: unknown): number | undefined {
  // A listener for a signal of the process receives its name.
  const options = typeof value === 'string' ? {} : (value ?? {})
  const { timeout } = optionsOf('INVALID_OPTION', 'close', options, ['timeout'])
  return timeout === undefined ? undefined : wholeMillis('timeout', timeout, 0, MAX_MS)
}

const EVENTS = ['start', 'end', 'retry', 'giveUp', 'block', 'charge', 'hookError']

export function eventNameOf<Name>(name: Name): Name {
  if (!EVENTS.includes(String(name))) {
    throw invalid('INVALID_OPTION', 'event', `must be one of ${EVENTS.join(', ')}`, name)
  }
  return name
}
