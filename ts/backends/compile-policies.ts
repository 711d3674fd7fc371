import { translated } from '../input/options.js'
import { algorithmOf, type Policy } from '../policies/policy.js'
import type { PolicyEntry, PolicySet } from '../policies/policy-set.js'
import type { Engine, EnginePolicy, EnginePolicySet } from './engine.js'
import type { EngineOperation } from './operation.js'
import { POLICY_KINDS } from './protocol.js'

/** Compiles a policy set. @throws {TollgateError} `INVALID_POLICY` for numbers that cannot be counted exactly. */
export function compilePolicySet(engine: Engine, policySet: PolicySet): EnginePolicySet {
  const { policies, ban } = policySet
  const compiled = withMaxOwed(compilePolicies(engine, policySet), policies)
  if (ban === undefined) {
    return compiled
  }
  const { after, withinUs, forgetUs, lengthsUs, per } = ban
  const gives = ({ name, policy }: PolicyEntry) => ban.policies?.includes(name) ?? policy.per !== 'global'
  const bits = policies.reduce((all, entry, index) => (gives(entry) ? all | (1 << index) : all), 0)
  const target = per === undefined ? 0 : policies.findIndex(({ policy }) => policy.per === per) + 1
  const numbers = [target, after, withinUs, forgetUs, ...lengthsUs]
  return translated('INVALID_OPTION', 'ban', () => compiled.withBan(bits, numbers))
}

/** The compiled policies with how many units may be owed. */
function withMaxOwed(compiled: EnginePolicySet, policies: readonly PolicyEntry[]): EnginePolicySet {
  if (policies.every(({ policy }) => policy.maxOwed === undefined)) {
    return compiled
  }
  return compiled.withMaxOwed(policies.map(({ policy }) => policy.maxOwed ?? -1))
}

function compilePolicies(engine: Engine, { policies, isSingle }: PolicySet): EnginePolicySet {
  if (isSingle) {
    return engine.PolicySet.single(compilePolicy(engine, (policies[0] as (typeof policies)[number]).policy))
  }
  const names = policies.map(({ name }) => name)
  const all = policies.map(({ name, policy }) => compilePolicy(engine, policy, `policies.${name}: `))
  const dimensions = policies.map(({ dimension }) => dimension)
  return translated('INVALID_POLICY', 'policies', () => engine.PolicySet.multi(names, all, dimensions))
}

/** Compiles a policy; `where` is its place, for messages. @throws {TollgateError} As {@link compilePolicySet}. */
export function compilePolicy(engine: Engine, policy: Policy, where = ''): EnginePolicy {
  return translated('INVALID_POLICY', `${where}${policy.algorithm}:`, () => toEnginePolicy(engine, policy))
}

/** The compiled policies of an override; none for another operation. */
export function compileOverrides(engine: Engine, operation: EngineOperation): readonly (EnginePolicy | undefined)[] {
  if (operation.kind !== 'override') {
    return NO_OVERRIDES
  }
  return operation.policies.map((policy) => policy && compilePolicy(engine, policy, 'override: '))
}

const NO_OVERRIDES: readonly EnginePolicy[] = []

/** The variant that the engine opens. @throws {TollgateError} `INVALID_OPTION` if it refuses. */
export function openedVariant<T>(open: () => T): T {
  return translated('INVALID_OPTION', 'policies', open)
}

function toEnginePolicy(engine: Engine, policy: Policy): EnginePolicy {
  const [kind, numbers] = algorithmOf(policy).encode(policy)
  const timeZone = 'timeZone' in policy ? policy.timeZone : undefined
  return engine.Policy.fromNumbers(POLICY_KINDS[kind].kind, numbers, timeZone)
}
