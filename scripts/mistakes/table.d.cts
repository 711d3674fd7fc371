import type { rateLimit } from '../../ts/middleware/express.js'

/** A common mistake of users. Its error or its warning must name the fix. */
export interface Mistake {
  /** The title of its section. */
  readonly section: string
  /** The code of the mistake. */
  readonly call: string
  /** Runs it: throws, returns a promise that rejects, or emits a process warning. */
  run(): unknown
  /** Matches the part of the message that names the fix. */
  readonly hint: RegExp
  /** The error's name, if it is one of JavaScript's own. */
  readonly name?: 'TypeError'
  /** Whether it succeeds with a process warning, which is emitted only once. */
  readonly isWarning?: true
}

export function mistakesOf(
  tollgate: typeof import('../../ts/index.js'),
  express: typeof rateLimit,
): {
  readonly mistakes: readonly Mistake[]
  /** What only the compiler finds, with what happens when it runs. */
  readonly silent: readonly (readonly [call: string, effect: string])[]
  readonly imports: readonly string[]
  close(): Promise<void>
}
