import { type CustomDecorator, SetMetadata } from '@nestjs/common'
import { checkCount } from '../../input/options.js'
import type { AnyKey, NestOwnOptions } from './options.js'

/** The metadata key of {@link RateLimit}. */
export const METADATA = 'tollgate:rate-limit'

/**
 * Overrides options of the module for a controller or a handler. `false` disables limiting. The
 * decorator of a handler replaces that of its controller.
 *
 * @example
 * \@RateLimit({ cost: 5 })
 */
export function RateLimit<K = AnyKey, N extends string = string>(
  options: NestOwnOptions<K, N> | false,
): CustomDecorator {
  checkCount(arguments.length, 1, 'RateLimit takes an object of options, or false')
  return SetMetadata(METADATA, options)
}
