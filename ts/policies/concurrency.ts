import { type Duration, microsOf, millisOfOption } from '../input/duration.js'
import { invalid, wholeNumber } from '../input/options.js'
import { type AlgorithmDefinition, policyOptions, WINDOW_DEFINITION } from './definition.js'
import { type Counted, type CountOptions, countOf } from './meter.js'

/**
 * A concurrency policy; made by {@link concurrency}. Durations are in milliseconds.
 *
 * @example
 * const policy: ConcurrencyPolicy = concurrency({ limit: 10, ttl: '30s' })
 */
export interface ConcurrencyPolicy {
  readonly algorithm: 'concurrency'
  readonly limit: number
  readonly ttl: number
}

/**
 * The options of {@link concurrency}.
 *
 * @example
 * const options: ConcurrencyOptions = { limit: 10, ttl: '30s' }
 * const limiter = new RateLimiter(concurrency(options))
 */
export interface ConcurrencyOptions<S extends string = string, M extends string = string, D extends number = number>
  extends Omit<CountOptions<S, M, D>, 'maxOwed'> {
  /** Units at a time: a whole number from 1 to 1,000,000,000. */
  readonly limit: number
  /**
   * How long a permit lives without a renewal: from 100 ms to a day. A process renews its permits every third of it.
   * The permits of a process that was killed stay taken for this time. Default: 30 seconds.
   */
  readonly ttl?: Duration
}

const MAX_LIMIT = 1_000_000_000

const DEFAULT_EXPIRY: Duration = '30s'

const [MIN_EXPIRY_MS, MAX_EXPIRY_MS] = [100, 86_400_000]

/**
 * At most `limit` units at a time, held by permits: see `acquire`. A permit ends when it is released, or when its
 * process does not renew it.
 *
 * **Law:** at any time of the deciding clock, the permits that have not expired hold at most `limit` units in total.
 * Work goes on beyond its permit only if it ignores the permit's `signal`.
 *
 * **Promise:** a call is admitted if its cost, the units of all permits and those of the calls that have waited longer
 * are at most `limit` together, up to 10,000 permits.
 *
 * For work that takes long: calls of a slow service, LLM requests, jobs. A rate bounds how often work starts.
 *
 * @throws {TollgateError} `INVALID_POLICY`; `INVALID_OPTION` for more than one argument
 *
 * @example
 * concurrency({ limit: 10, ttl: '30s' })
 */
export function concurrency<
  const S extends string = never,
  const M extends string = never,
  const D extends number = never,
>(options: ConcurrencyOptions<S, M, D>): Counted<ConcurrencyPolicy, NoInfer<S>, NoInfer<M>, NoInfer<D>> {
  const given = policyOptions('concurrency', arguments, options, ['limit'], ['ttl'])
  const { limit, ttl } = given
  const units = wholeNumber('INVALID_POLICY', 'concurrency: limit', limit, 1, MAX_LIMIT)
  const millis = millisOfOption('INVALID_POLICY', 'concurrency: ttl', ttl ?? DEFAULT_EXPIRY)
  if (millis < MIN_EXPIRY_MS || millis > MAX_EXPIRY_MS) {
    throw invalid('INVALID_POLICY', 'concurrency: ttl', "must be from '100ms' to '1d'", ttl)
  }
  return Object.freeze({
    algorithm: 'concurrency',
    limit: units,
    ttl: millis,
    ...countOf('concurrency', given),
  }) as Counted<ConcurrencyPolicy, S, M, D>
}

export const CONCURRENCY: AlgorithmDefinition<ConcurrencyPolicy> = {
  ...WINDOW_DEFINITION,
  create: concurrency,
  encode: ({ limit, ttl }) => ['concurrency', [limit, microsOf(ttl)]],
  windowMs: ({ ttl }) => ttl,
  decodeOverride: ([limit = 0]) => ({ limit }),
}
