import { nameOf } from '../input/options.js'

/** The kind of key that counts all calls together: calls name no key for it. */
export const GLOBAL = 'global'

/**
 * What a policy says of the kind of key that it counts by: nothing, if that is the key of the call.
 *
 * @param where - The policy's function, for the message.
 */
export function perOf<S extends string>(where: string, per: unknown): { readonly per?: S } {
  return per === undefined ? {} : { per: nameOf(`${where}: per`, per, 'INVALID_POLICY') as S }
}
