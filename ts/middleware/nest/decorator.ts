import { type CustomDecorator, SetMetadata } from '@nestjs/common'
import { TollgateError } from '../../api/error.js'
import { checkCount } from '../../input/options.js'
import type { AnyCost } from '../shared/options.js'
import type { AnyKey, AnyNestOptions, NestOwnOptions } from './options.js'

/** The metadata key of {@link RateLimit}. */
export const METADATA = 'tollgate:rate-limit'

/** The value that {@link RateLimit} stores. */
export interface RouteRule {
  /** The name of one of the module's `limiters`. */
  readonly name?: string | undefined
  /** The options that replace those of the module. */
  readonly own?: AnyNestOptions | undefined
}

/**
 * Overrides options of the module for a controller or a handler. `false` disables limiting. The decorator of a handler
 * replaces that of its controller.
 * @example
 * \@RateLimit({ cost: 5 })
 */
export function RateLimit<K = AnyKey, N extends string = string, U = AnyCost>(
  options: NestOwnOptions<K, N, U> | false,
): CustomDecorator
/**
 * Limits a controller or a handler by one of the module's `limiters`.
 *
 * @param limiter - Its name. An unknown one is an error when the app starts.
 * @param options - Options that replace those of the limiter.
 *
 * @example
 * \@RateLimit('login', { cost: 5 })
 */
export function RateLimit(limiter: string, options?: NestOwnOptions & { readonly limiter?: never }): CustomDecorator
export function RateLimit(first: string | AnyNestOptions | false, second?: AnyNestOptions): CustomDecorator {
  const isNamed = typeof first === 'string'
  const rule = isNamed ? 'the name of a limiter and an object of options' : 'an object of options, or false'
  checkCount(arguments.length, isNamed ? 2 : 1, `RateLimit takes ${rule}`)
  const own = isNamed ? second : first
  for (const name of ['limiters', ...(isNamed ? ['limiter'] : [])]) {
    if (typeof own === 'object' && name in own) {
      const place = name === 'limiter' ? `of the limiter ${JSON.stringify(first)}` : 'of RateLimitModule'
      throw new TollgateError('INVALID_OPTION', `RateLimit: ${name} cannot be given: it is an option ${place}`)
    }
  }
  return SetMetadata(METADATA, own === false ? own : ({ name: isNamed ? first : undefined, own } satisfies RouteRule))
}
