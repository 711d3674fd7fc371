import { type CustomDecorator, SetMetadata } from '@nestjs/common'
import { checkCount } from '../../input/options.js'
import type { AnyKey, NestOwnOptions } from './options.js'

/** Where {@link RateLimit} leaves what it says. */
export const METADATA = 'tollgate:rate-limit'

/**
 * Says what differs for a controller or a handler from what the module says: any of its options; or `false`, that
 * it is not limited. What a handler says replaces what its controller says.
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
