import { nameOf } from '../input/options.js'

/** The key dimension of policies that count all calls together. Calls name no key for it. */
export const GLOBAL = 'global'

/** The option of every policy that chooses the keys which it counts by. */
export interface PerOption<S extends string = string> {
  /**
   * The key dimension that this policy counts by, as calls name it in their keys (see `RateLimiter`). `'global'` counts
   * all calls together. Default: the key of the call.
   */
  readonly per?: S
}

/** The `per` of a policy of the function `where`; absent if the policy counts by the key of the call. */
export function perOf<S extends string>(where: string, per: unknown): { readonly per?: S } {
  return per === undefined ? {} : { per: nameOf(`${where}: per`, per, 'INVALID_POLICY') as S }
}

/** The type of a policy of type `P` that was made with a `per` of type `S`; `never` without one. */
export type Keyed<P, S extends string> = [S] extends [never]
  ? P
  : P & (string extends S ? { readonly per?: string } : { readonly per: S })
