import type { EnginePolicy, EnginePolicySet } from '../../backends/engine.js'
import { zoneOf } from './host.js'
import type { Scratch } from './scratch.js'

/** The exports of a module that build a policy set, one policy at a time. */
export interface BuilderExports {
  startPolicySet(): void
  addPolicy(kind: number, count: number, zone: number, dimension: number): void
  addOverride(kind: number, count: number, zone: number): void
  setBan(policies: number, count: number): void
  setMaxOwed(count: number): void
}

/** A policy as numbers. The engine has a policy only as part of a limiter. */
export class EncodedPolicy {
  /** The number of the time zone; 0 for a policy without one. */
  readonly zone: number

  constructor(
    readonly kind: number,
    readonly numbers: readonly number[],
    readonly timeZone: string | undefined,
  ) {
    this.zone = timeZone === undefined ? 0 : zoneOf(timeZone)
  }

  /** Writes its numbers and time zone to the scratch memory, and returns the count of numbers. */
  writeTo(scratch: Scratch): number {
    scratch.writeText(this.timeZone ?? '', 1)
    return scratch.writeNumbers(this.numbers)
  }
}

export class EncodedPolicySet implements EnginePolicySet {
  constructor(
    readonly isSingle: boolean,
    readonly policies: readonly EnginePolicy[],
    readonly names: readonly string[],
    readonly dimensions: readonly number[],
    /** The policies that bans apply to, as bits, and the numbers of the rule. */
    readonly ban?: readonly [policies: number, numbers: readonly number[]],
    readonly maxOwed: readonly number[] = [],
  ) {}

  withBan(policies: number, numbers: readonly number[]): EncodedPolicySet {
    const { isSingle, names, dimensions, maxOwed } = this
    return new EncodedPolicySet(isSingle, this.policies, names, dimensions, [policies, numbers], maxOwed)
  }

  withMaxOwed(maxOwed: readonly number[]): EncodedPolicySet {
    const { isSingle, policies, names, dimensions, ban } = this
    return new EncodedPolicySet(isSingle, policies, names, dimensions, ban, maxOwed)
  }
}

/** Builds a policy set for the limiter that is opened next. @returns Whether it is a single policy without a name. */
export function buildPolicySet(glue: BuilderExports, scratch: Scratch, policies: EnginePolicySet): boolean {
  const policySet = policies as EncodedPolicySet
  glue.startPolicySet()
  policySet.policies.forEach((policy, index) => {
    const encoded = policy as EncodedPolicy
    scratch.writeText(policySet.names[index] as string, 0)
    glue.addPolicy(encoded.kind, encoded.writeTo(scratch), encoded.zone, policySet.dimensions[index] as number)
  })
  if (policySet.ban !== undefined) {
    const [banned, numbers] = policySet.ban
    glue.setBan(banned, scratch.writeNumbers(numbers))
  }
  if (policySet.maxOwed.length > 0) {
    glue.setMaxOwed(scratch.writeNumbers(policySet.maxOwed))
  }
  return policySet.isSingle
}

export function buildOverrides(
  glue: BuilderExports,
  scratch: Scratch,
  policies: readonly (EnginePolicy | undefined)[],
): void {
  if (policies.length > 0) {
    glue.startPolicySet()
  }
  for (const policy of policies) {
    const encoded = policy as EncodedPolicy | undefined
    // A policy without an override has no numbers.
    glue.addOverride(encoded?.kind ?? 0, encoded?.writeTo(scratch) ?? 0, encoded?.zone ?? 0)
  }
}
