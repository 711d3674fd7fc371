import { TollgateError } from '../../api/error.js'
import { microsOf } from '../../input/duration.js'
import { type Policy, policyOf } from '../../policies/policy.js'
import type { Compound } from '../../policies/policy-set.js'
import { compiled } from '../compiled.js'
import type { Engine } from '../engine.js'

/** A number as the fraction that was meant by it. */
interface Fraction {
  readonly over: bigint
  readonly under: bigint
}

/**
 * A share of a limiter's policies: what they admit together in N processes with a share of 1/N is at most what
 * they admit in one as they are.
 *
 * @param engine - What is to count it.
 * @param share - Above 0, at most 1.
 * @throws {TollgateError} `INVALID_OPTION` if it leaves nothing of a number, or what cannot be counted exactly.
 */
export function shareOf(engine: Engine, compound: Compound, share: number): Compound {
  const policies = compound.policies.map((named) => {
    const where = compound.isSingle ? '' : `policies.${named.name}: `
    return { ...named, policy: new Sharing(engine, where, named.policy, share).policy }
  })
  return { ...compound, policies }
}

/**
 * The same share of numbers that a key is to have instead, by the numbers of their policies; `undefined` if nothing
 * of one of them would be left.
 */
export function shareOfNumbers(
  engine: Engine,
  policies: readonly (Policy | undefined)[],
  share: number,
): readonly (Policy | undefined)[] | undefined {
  try {
    return policies.map((policy) => policy && new Sharing(engine, '', policy, share).policy)
  } catch (error) {
    if (TollgateError.is(error)) {
      return undefined
    }
    throw error
  }
}

/** Takes the share of one policy. */
class Sharing {
  readonly policy: Policy
  readonly #where: string
  readonly #share: number
  readonly #fraction: Fraction

  constructor(engine: Engine, where: string, policy: Policy, share: number) {
    this.#where = `${where}${policy.algorithm}`
    this.#share = share
    this.#fraction = fractionOf(share)
    const shared = { ...policy, ...this.#numbersOf(policy) }
    try {
      this.policy = policyOf(shared)
      compiled(engine, this.policy)
    } catch (cause) {
      const rule = `makes an impossible policy: ${where}${(cause as Error).message}`
      throw new TollgateError('INVALID_OPTION', `onStoreFailure: embedded.share ${share} ${rule}`, { cause })
    }
  }

  #numbersOf(policy: Policy): Partial<Policy> {
    switch (policy.algorithm) {
      case 'gcra': {
        const { units, every } = this.#rateOf(policy.limit, policy.period)
        return { limit: units, period: every, burst: this.#someOf('burst', policy.burst) }
      }
      case 'leakyBucket': {
        const leak = this.#rateOf(policy.leak.units, policy.leak.every)
        return { capacity: this.#someOf('capacity', policy.capacity), leak }
      }
      case 'tokenBucket': {
        const { tokens, every } = policy.refill
        const { units, every: longer } = this.#rateOf(tokens, every)
        // Tokens that come at once add to the bucket's at any moment: rarer refills of as many would be too much then.
        const isInterval = policy.refillMode === 'interval'
        return {
          capacity: this.#someOf('capacity', policy.capacity),
          refill: isInterval
            ? { tokens: this.#someOf('refill.tokens', tokens), every }
            : { tokens: units, every: longer },
          initial: this.#partOf(policy.initial),
          debt: this.#partOf(policy.debt),
        }
      }
      case 'slidingLogs': {
        const limits = Object.entries(policy.limits).map(([name, { limit, window }]) => {
          return [name, { limit: this.#someOf(`limits.${name}.limit`, limit), window }]
        })
        return { limits: Object.fromEntries(limits) }
      }
      default:
        return { limit: this.#someOf('limit', policy.limit) }
    }
  }

  /** The share of a number, rounded down. */
  #partOf(number: number): number {
    const { over, under } = this.#fraction
    return Number((BigInt(number) * over) / under)
  }

  /** The share of a number that must not vanish. */
  #someOf(option: string, number: number): number {
    const part = this.#partOf(number)
    if (part === 0) {
      const rule = `must leave at least 1 of ${this.#where}: ${option}, which is ${number}`
      throw new TollgateError('INVALID_OPTION', `onStoreFailure: embedded.share ${rule}, got ${this.#share}`)
    }
    return part
  }

  /**
   * The share of a rate: fewer units in the same time, or as many in a longer one, whichever is nearer. Both are
   * rounded against the caller. Times are in milliseconds.
   */
  #rateOf(units: number, every: number): { readonly units: number; readonly every: number } {
    const { over, under } = this.#fraction
    const micros = BigInt(microsOf(every))
    const fewer = (BigInt(units) * over) / under
    const longer = (micros * under + over - 1n) / over
    return fewer * longer >= BigInt(units) * micros
      ? { units: Number(fewer), every }
      : { units, every: Number(longer) / 1_000 }
  }
}

/**
 * The fraction that was meant by a number above 0: 7/100 by 0.07, and 1/3 by 1 / 3. As doubles both are a little
 * off, and a product that is then rounded down would lose a unit.
 *
 * It is the first of the number's continued fraction that is the same double, which is the simplest one if that
 * has a denominator below 2^26.
 */
export function fractionOf(number: number): Fraction {
  let [rest, divisor] = exactOf(number)
  let [before, last] = [
    { over: 0n, under: 1n },
    { over: 1n, under: 0n },
  ] as [Fraction, Fraction]
  while (divisor > 0n) {
    const whole = rest / divisor
    const next = { over: whole * last.over + before.over, under: whole * last.under + before.under }
    if (Number(next.over) / Number(next.under) === number) {
      return next
    }
    ;[rest, divisor] = [divisor, rest % divisor]
    ;[before, last] = [last, next]
  }
  return last
}

/** A double as what it is: a whole number over a power of 2. */
function exactOf(number: number): [bigint, bigint] {
  let [whole, power] = [number, 1n]
  while (!Number.isInteger(whole)) {
    whole *= 2
    power *= 2n
  }
  return [BigInt(whole), power]
}
