import * as native from './addon.js'
import type { Compound } from './compound.js'
import { microsOf } from './duration.js'
import { translated } from './options.js'
import { compiledCalendarWindow } from './policies/calendar-window.js'
import type { Policy } from './policy.js'

/**
 * A limiter's policies as the engine has them.
 *
 * @throws {TollgateError} `INVALID_POLICY` for numbers that cannot be counted exactly.
 */
export function compiledAll({ policies, isSingle }: Compound): native.Policies {
  if (isSingle) {
    return native.Policies.one(compiled((policies[0] as (typeof policies)[number]).policy))
  }
  const names = policies.map(({ name }) => name)
  const all = policies.map(({ name, policy }) => compiled(policy, `policies.${name}: `))
  const subjects = policies.map(({ subject }) => subject)
  return translated('INVALID_POLICY', 'policies', () => native.Policies.several(names, all, subjects))
}

/**
 * The policy as the engine has it.
 *
 * @param where - Whose policy it is, for the message.
 * @throws {TollgateError} `INVALID_POLICY` for numbers that cannot be counted exactly.
 */
export function compiled(policy: Policy, where = ''): native.Policy {
  return translated('INVALID_POLICY', `${where}${policy.algorithm}:`, () => compile(policy))
}

function compile(policy: Policy): native.Policy {
  switch (policy.algorithm) {
    case 'fixedWindow':
      return native.Policy.fixedWindow(policy.limit, microsOf(policy.window), policy.countRefused)
    case 'calendarWindow':
      return compiledCalendarWindow(policy)
    case 'slidingWindow': {
      const { limit, window, buckets, layout } = policy
      return native.Policy.slidingWindow(limit, microsOf(window), buckets, layout === 'hash')
    }
    case 'slidingCounter':
      return native.Policy.slidingCounter(policy.limit, microsOf(policy.window))
    case 'slidingLog':
      return native.Policy.slidingLog(policy.limit, microsOf(policy.window), policy.countRefused)
    case 'slidingLogs': {
      const limits = Object.values(policy.limits)
      const precision = policy.precision === undefined ? undefined : microsOf(policy.precision)
      return native.Policy.slidingLogs(
        limits.map(({ limit }) => limit),
        limits.map(({ window }) => microsOf(window)),
        precision,
      )
    }
    case 'tokenBucket': {
      const { capacity, refill, initial, debt } = policy
      const numbers = [capacity, refill.tokens, microsOf(refill.every), initial, debt] as const
      return policy.refillMode === 'interval'
        ? native.Policy.tokenBucketInterval(...numbers)
        : native.Policy.tokenBucket(...numbers)
    }
    case 'leakyBucket':
      return native.Policy.leakyBucket(policy.capacity, policy.leak.units, microsOf(policy.leak.every))
    case 'gcra':
      return native.Policy.gcra(policy.limit, microsOf(policy.period), policy.burst)
  }
}
