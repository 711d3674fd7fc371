import { nameOf } from '../input/options.js'

/** The key dimension of policies that count all calls together. Calls name no key for it. */
export const GLOBAL = 'global'

/**
 * The `per` property of a policy: absent if the policy counts by the key of the call.
 *
 * @param where - The policy's function, for the message.
 */
export function perOf<S extends string>(where: string, per: unknown): { readonly per?: S } {
  return per === undefined ? {} : { per: nameOf(`${where}: per`, per, 'INVALID_POLICY') as S }
}
