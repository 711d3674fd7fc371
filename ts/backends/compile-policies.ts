import { microsOf } from '../input/duration.js'
import { translated } from '../input/options.js'
import type { Policy } from '../policies/policy.js'
import type { PolicySet } from '../policies/policy-set.js'
import type { Engine, EnginePolicy, EnginePolicySet } from './engine.js'

/**
 * Compiles a policy set for the engine.
 *
 * @throws {TollgateError} `INVALID_POLICY` for numbers that cannot be counted exactly.
 */
export function compilePolicySet(engine: Engine, { policies, isSingle }: PolicySet): EnginePolicySet {
  if (isSingle) {
    return engine.PolicySet.single(compilePolicy(engine, (policies[0] as (typeof policies)[number]).policy))
  }
  const names = policies.map(({ name }) => name)
  const all = policies.map(({ name, policy }) => compilePolicy(engine, policy, `policies.${name}: `))
  const dimensions = policies.map(({ dimension }) => dimension)
  return translated('INVALID_POLICY', 'policies', () => engine.PolicySet.multi(names, all, dimensions))
}

/**
 * Compiles a policy for the engine.
 *
 * @param where - The place of the policy, for the message.
 * @throws {TollgateError} `INVALID_POLICY` for numbers that cannot be counted exactly.
 */
export function compilePolicy(engine: Engine, policy: Policy, where = ''): EnginePolicy {
  return translated('INVALID_POLICY', `${where}${policy.algorithm}:`, () => toEnginePolicy(engine, policy))
}

function toEnginePolicy(engine: Engine, policy: Policy): EnginePolicy {
  switch (policy.algorithm) {
    case 'fixedWindow':
      return engine.Policy.fixedWindow(policy.limit, microsOf(policy.window), policy.countRefused)
    case 'calendarWindow': {
      const { limit, every, timeZone } = policy
      return engine.Policy.calendarWindow(limit, typeof every === 'number' ? microsOf(every) : every, timeZone)
    }
    case 'slidingWindow': {
      const { limit, window, buckets, layout } = policy
      return engine.Policy.slidingWindow(limit, microsOf(window), buckets, layout === 'hash')
    }
    case 'slidingCounter':
      return engine.Policy.slidingCounter(policy.limit, microsOf(policy.window))
    case 'slidingLog':
      return engine.Policy.slidingLog(policy.limit, microsOf(policy.window), policy.countRefused)
    case 'slidingLogs': {
      const limits = Object.values(policy.limits)
      const precision = policy.precision === undefined ? undefined : microsOf(policy.precision)
      return engine.Policy.slidingLogs(
        limits.map(({ limit }) => limit),
        limits.map(({ window }) => microsOf(window)),
        precision,
      )
    }
    case 'tokenBucket': {
      const { capacity, refill, initial, debt } = policy
      const numbers = [capacity, refill.tokens, microsOf(refill.every), initial, debt] as const
      return policy.refillMode === 'interval'
        ? engine.Policy.tokenBucketInterval(...numbers)
        : engine.Policy.tokenBucket(...numbers)
    }
    case 'leakyBucket':
      return engine.Policy.leakyBucket(policy.capacity, policy.leak.units, microsOf(policy.leak.every))
    case 'gcra':
      return engine.Policy.gcra(policy.limit, microsOf(policy.period), policy.burst)
  }
}
