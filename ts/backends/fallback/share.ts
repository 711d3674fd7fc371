import { TollgateError } from '../../api/error.js'
import { microsOf } from '../../input/duration.js'
import type { ShareScale } from '../../policies/definition.js'
import { algorithmOf, type Policy, policyOf } from '../../policies/policy.js'
import type { PolicySet } from '../../policies/policy-set.js'
import { compilePolicy } from '../compile-policies.js'
import type { Engine } from '../engine.js'

/** An exact fraction. */
interface Fraction {
  readonly numerator: bigint
  readonly denominator: bigint
}

/**
 * A share of a limiter's policies. N processes with a share of 1/N admit together at most as much
 * as one process with the original policies.
 *
 * @param share - Above 0, at most 1.
 * @throws {TollgateError} `INVALID_OPTION` if a number would become 0, or cannot be counted exactly.
 */
export function shareOf(engine: Engine, policySet: PolicySet, share: number): PolicySet {
  const policies = policySet.policies.map((named) => {
    const where = policySet.isSingle ? '' : `policies.${named.name}: `
    return { ...named, policy: new PolicyShare(engine, where, named.policy, share).policy }
  })
  // A refusal of the share says nothing about the caller: it bans no key.
  const { ban: _, ...others } = policySet
  return { ...others, policies }
}

/** The same share of the numbers of an override, by policy; `undefined` if one of them would become 0. */
export function shareOfNumbers(
  engine: Engine,
  policies: readonly (Policy | undefined)[],
  share: number,
): readonly (Policy | undefined)[] | undefined {
  try {
    return policies.map((policy) => policy && new PolicyShare(engine, '', policy, share).policy)
  } catch (error) {
    if (TollgateError.is(error)) {
      return undefined
    }
    throw error
  }
}

class PolicyShare implements ShareScale {
  readonly policy: Policy
  readonly #where: string
  readonly #share: number
  readonly #fraction: Fraction

  constructor(engine: Engine, where: string, policy: Policy, share: number) {
    this.#where = `${where}${policy.algorithm}`
    this.#share = share
    this.#fraction = fractionOf(share)
    const { maxOwed } = policy
    const owed = maxOwed === undefined ? {} : { maxOwed: this.unitsOf(maxOwed) }
    const shared = { ...policy, ...algorithmOf(policy).share(policy, this), ...owed }
    try {
      this.policy = policyOf(shared)
      compilePolicy(engine, this.policy)
    } catch (cause) {
      const rule = `makes an invalid policy: ${where}${(cause as Error).message}`
      throw new TollgateError('INVALID_OPTION', `onStoreFailure: embedded.share ${share} ${rule}`, { cause })
    }
  }

  unitsOf(number: number): number {
    const { numerator, denominator } = this.#fraction
    return Number((BigInt(number) * numerator) / denominator)
  }

  nonZeroUnitsOf(option: string, number: number): number {
    const part = this.unitsOf(number)
    if (part === 0) {
      const rule = `must leave at least 1 of ${this.#where}: ${option}, which is ${number}`
      throw new TollgateError('INVALID_OPTION', `onStoreFailure: embedded.share ${rule}, got ${this.#share}`)
    }
    return part
  }

  /**
   * The share of a rate: fewer units in the same time, or the same units in a longer time,
   * whichever is nearer. Rounding never increases the rate. Times are in milliseconds.
   */
  rateOf(units: number, every: number): { readonly units: number; readonly every: number } {
    const { numerator, denominator } = this.#fraction
    const micros = BigInt(microsOf(every))
    const fewer = (BigInt(units) * numerator) / denominator
    const longer = (micros * denominator + numerator - 1n) / numerator
    return fewer * longer >= BigInt(units) * micros
      ? { units: Number(fewer), every }
      : { units, every: Number(longer) / 1_000 }
  }
}

/**
 * The fraction that a number above 0 was meant to be: 7/100 for 0.07, and 1/3 for 1 / 3. As doubles
 * both are slightly off, and rounding their products down would lose a unit.
 *
 * The result is the first convergent of the number's continued fraction that equals it as a double.
 * It is the simplest such fraction if that one has a denominator below 2^26.
 */
export function fractionOf(number: number): Fraction {
  let [rest, divisor] = exactOf(number)
  let [before, last] = [
    { numerator: 0n, denominator: 1n },
    { numerator: 1n, denominator: 0n },
  ] as [Fraction, Fraction]
  while (divisor > 0n) {
    const whole = rest / divisor
    const next = {
      numerator: whole * last.numerator + before.numerator,
      denominator: whole * last.denominator + before.denominator,
    }
    if (Number(next.numerator) / Number(next.denominator) === number) {
      return next
    }
    ;[rest, divisor] = [divisor, rest % divisor]
    ;[before, last] = [last, next]
  }
  return last
}

/** The exact value of a double: a whole number over a power of 2. */
function exactOf(number: number): [bigint, bigint] {
  let [whole, power] = [number, 1n]
  while (!Number.isInteger(whole)) {
    whole *= 2
    power *= 2n
  }
  return [BigInt(whole), power]
}
