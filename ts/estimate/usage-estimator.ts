import { checkKey } from '../input/keys.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../input/options.js'
import { RecentUsage } from './recent-usage.js'

/**
 * The options of {@link UsageEstimator}.
 *
 * @example
 * const options: UsageEstimatorOptions = { quantile: 0.99 }
 * const estimates = new UsageEstimator(options)
 */
export interface UsageEstimatorOptions {
  /**
   * The share of the remembered calls whose usage an estimate covers: above 0, at most 1. Default: 0.9. With 1, an
   * estimate is their largest usage.
   */
  readonly quantile?: number
  /** How many calls of a key are remembered, the latest ones: a whole number from 1 to 10,000. Default: 100. */
  readonly samples?: number
  /** With fewer remembered calls, an estimate is the declared maximum. Default: 10, or `samples` if that is less. */
  readonly minSamples?: number
  /** How many keys are remembered: a whole number from 1 to 1,000,000, the latest used ones. Default: 1,000. */
  readonly maxKeys?: number
}

/**
 * The options of {@link UsageEstimator.estimate}.
 *
 * @example
 * const estimates = new UsageEstimator()
 * const options: EstimateOptions = { known: 1_200, atMost: limiter.policies.default.burst }
 * const units = estimates.estimate('model:large', 4_096, options)
 */
export interface EstimateOptions {
  /** Units that the call uses in any case, such as the tokens of its input: the result includes them. Default: 0. */
  readonly known?: number | undefined
  /** The largest useful result, such as the `limit` of a policy. Only `known` may exceed it. Default: no bound. */
  readonly atMost?: number | undefined
}

const DEFAULT_QUANTILE = 0.9
const DEFAULT_SAMPLES = 100
const DEFAULT_MIN_SAMPLES = 10
const DEFAULT_MAX_KEYS = 1_000

const MAX_SAMPLES = 10_000
const MAX_KEYS = 1_000_000

/**
 * Estimates how many units a call will use, from the usage of the latest calls. A reservation of the declared maximum,
 * such as that of a request to a language model, keeps units from other calls that nobody uses.
 *
 * The numbers are in the memory of the process: at most `maxKeys` times `samples`.
 *
 * @example
 * const estimates = new UsageEstimator()
 * const units = estimates.estimate('model:large', 4_096, { atMost: limiter.policies.default.burst })
 * const reservation = await limiter.reserve('customer:7', units)
 * if (reservation.allowed) {
 *   const { tokens } = await generate()
 *   estimates.record('model:large', tokens)
 *   await reservation.commit(tokens)
 * }
 */
export class UsageEstimator {
  readonly #quantile: number
  readonly #samples: number
  readonly #minSamples: number
  readonly #maxKeys: number
  /** The key that was used last is the last one. */
  readonly #usages = new Map<string, RecentUsage>()

  /** @throws {TollgateError} `INVALID_OPTION` */
  constructor(options: UsageEstimatorOptions = {}) {
    checkCount(arguments.length, 1, 'UsageEstimator takes an object of options')
    const names = ['quantile', 'samples', 'minSamples', 'maxKeys'] as const
    const given = optionsOf('INVALID_OPTION', 'UsageEstimator', options, names)
    this.#quantile = quantileOf(given.quantile ?? DEFAULT_QUANTILE)
    this.#samples = wholeNumber('INVALID_OPTION', 'samples', given.samples ?? DEFAULT_SAMPLES, 1, MAX_SAMPLES)
    const minSamples = given.minSamples ?? Math.min(DEFAULT_MIN_SAMPLES, this.#samples)
    this.#minSamples = wholeNumber('INVALID_OPTION', 'minSamples', minSamples, 1)
    this.#maxKeys = wholeNumber('INVALID_OPTION', 'maxKeys', given.maxKeys ?? DEFAULT_MAX_KEYS, 1, MAX_KEYS)
    if (this.#minSamples > this.#samples) {
      throw invalid('INVALID_OPTION', 'minSamples', `must be at most samples (${this.#samples})`, minSamples)
    }
  }

  /**
   * The units to reserve for a call: `known`, and the quantile of the recent usage of the key, at most the declared
   * maximum. It reads the key's calls, and records nothing.
   *
   * @param key - What the usage depends on, such as the model.
   * @param declaredMax - The most that the call can use besides `known`, as the request declares it.
   * @returns A whole number from 1 to `known + declaredMax`; at most `atMost`, unless `known` alone is more.
   * @throws {TollgateError} `INVALID_KEY`, `INVALID_OPTION`
   */
  estimate(key: string, declaredMax: number, options: EstimateOptions = {}): number {
    checkCount(arguments.length, 3, 'estimate takes a key, the declared maximum and an object of options')
    checkKey(key)
    const maximum = wholeNumber('INVALID_OPTION', 'estimate: declaredMax', declaredMax)
    const given = optionsOf('INVALID_OPTION', 'estimate', options, ['known', 'atMost'])
    const known = wholeNumber('INVALID_OPTION', 'estimate: known', given.known ?? 0, 0)
    const atMost = wholeNumber('INVALID_OPTION', 'estimate: atMost', given.atMost ?? Number.MAX_SAFE_INTEGER)
    const usage = this.#used(key)
    const isKnown = usage !== undefined && usage.count >= this.#minSamples
    const usual = isKnown ? usage.quantile(this.#quantile) : maximum
    // The unknown part gives way: a call whose known units never fit should be refused as impossible.
    const unknown = Math.min(usual, maximum, Math.max(0, atMost - known))
    return Math.max(1, known + unknown)
  }

  /**
   * Records the usage of a call that has ended by itself. Do not record calls that were aborted: their usage says
   * nothing about how long such calls are.
   *
   * @param used - The units that the call used, without its `known` ones: a whole number from 0.
   * @throws {TollgateError} `INVALID_KEY`, `INVALID_OPTION`
   */
  record(key: string, used: number): void {
    checkCount(arguments.length, 2, 'record takes a key and the used units')
    checkKey(key)
    wholeNumber('INVALID_OPTION', 'record: used', used, 0)
    let usage = this.#used(key)
    if (usage === undefined) {
      usage = new RecentUsage(this.#samples)
      this.#usages.set(key, usage)
      const [oldest] = this.#usages.keys()
      if (this.#usages.size > this.#maxKeys && oldest !== undefined) {
        this.#usages.delete(oldest)
      }
    }
    usage.add(used)
  }

  /** The usage of a key, which becomes the latest used one. */
  #used(key: string): RecentUsage | undefined {
    const usage = this.#usages.get(key)
    if (usage !== undefined) {
      this.#usages.delete(key)
      this.#usages.set(key, usage)
    }
    return usage
  }
}

function quantileOf(value: unknown): number {
  if (typeof value === 'number' && value > 0 && value <= 1) {
    return value
  }
  const advice = typeof value === 'number' && value > 1 && value <= 100 ? `write ${value / 100}` : undefined
  throw invalid('INVALID_OPTION', 'quantile', 'must be a number above 0 and at most 1', value, advice)
}
