import type { POLICY_KINDS } from '../backends/protocol.js'
import { checkCount, optionsOf } from '../input/options.js'

/** The numbers of an override, by the names of their options. Durations are in milliseconds. */
export type OverrideNumbers = Readonly<Record<string, number | readonly OverrideLimit[]>>

export interface OverrideLimit {
  readonly limit: number
  readonly windowMs: number
}

export interface ShareScale {
  /** Rounded down. */
  unitsOf(units: number): number
  /** At least 1, or an error for the option. */
  nonZeroUnitsOf(option: string, units: number): number
  /** Times are in milliseconds. */
  rateOf(units: number, every: number): { readonly units: number; readonly every: number }
}

/** An algorithm for the rest of the package. `P` is the type of its policies. */
export interface AlgorithmDefinition<P> {
  readonly create: (options: never) => P
  /** The option with the number of units of a policy that has one such number. */
  readonly mainOption?: 'limit' | 'capacity'
  /** The numbers of a policy as `Policy::from_numbers` in src/policy/mod.rs reads them, times in microseconds. */
  encode(policy: P): readonly [kind: keyof typeof POLICY_KINDS, numbers: readonly number[]]
  windowMs(policy: P, limit?: string): number
  largestCost(policy: P, limit?: string): number
  /** The numbers of a share of a policy that differ from the policy's. */
  share(policy: P, scale: ShareScale): Partial<P>
  /** The rate in a policy's states, and their maximum of charged units; absent if they contain none. */
  rate?(policy: P): { readonly units: number; readonly periodMs: number; readonly limit: number }
  /**
   * The numbers of a policy with a burst that is `units` less, so that units may be used some time after they were
   * charged; `undefined` if no burst would be left. Windows have no such burst: a unit is used before the end of the
   * window that counts it. Absent if the algorithm cannot be leased.
   */
  lease?(policy: P, units: number): Partial<P> | undefined
  /** Decodes the stored numbers of an override: those of `push_override` in src/redis/codec/. */
  decodeOverride(numbers: readonly number[]): OverrideNumbers
}

/** The parts of a definition that all algorithms with one limit and one window share. */
export const WINDOW_DEFINITION = {
  mainOption: 'limit',
  windowMs: ({ window }: { readonly window: number }) => window,
  largestCost: ({ limit }: { readonly limit: number }) => limit,
  share: ({ limit }: { readonly limit: number }, scale: ShareScale) => ({
    limit: scale.nonZeroUnitsOf('limit', limit),
  }),
  decodeOverride: ([limit = 0, windowUs = 0]: readonly number[]) => ({ limit, windowMs: windowUs / 1_000 }),
} as const

/** The time until `units` units have come back. BigInt: rounding must not turn a whole second into the next one. */
export function refillMs(units: number, each: number, everyMs: number): number {
  const everyUs = BigInt(Math.round(everyMs * 1_000))
  return Number((BigInt(units) * everyUs + BigInt(each) - 1n) / BigInt(each)) / 1_000
}

/**
 * Reads the options of a policy function, which has one argument.
 *
 * @param example - The required options, for a message.
 */
export function policyOptions<const Name extends string>(
  where: string,
  { length }: IArguments,
  options: unknown,
  required: readonly Name[],
  others: readonly Name[] = [],
  example = required.join(', '),
): { readonly [Option in Name | 'per' | 'meter' | 'defaultCost' | 'maxOwed']?: unknown } {
  checkCount(length, 1, `${where} takes an object of options`, `write ${where}({ ${example} })`)
  // Permits are released, and not paid, so nothing is owed under concurrency.
  const owed = where === 'concurrency' ? [] : (['maxOwed'] as const)
  return optionsOf('INVALID_POLICY', where, options, [...required, ...others, 'per', 'meter', 'defaultCost', ...owed])
}
