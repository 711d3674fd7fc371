import type { rateLimit } from '../../ts/middleware/express.js'

/** A mistake that users make naturally, and what its error or its warning must tell: the fix. */
export interface Mistake {
  /** What is written. */
  readonly call: string
  /** Does it: throws, or returns a promise that rejects; or has the process warned. */
  run(): unknown
  /** What the message says of the fix. */
  readonly hint: RegExp
  /** The error's name, if it is JavaScript's own. */
  readonly name?: 'TypeError'
  /** Whether it does not fail, and the process is warned of it: once, so it can be run once. */
  readonly isWarning?: true
}

export function mistakesOf(
  tollgate: typeof import('../../ts/index.js'),
  express: typeof rateLimit,
): { readonly mistakes: readonly Mistake[]; close(): Promise<void> }
