/** The codes of what this package warns of, by `process.emitWarning`. */
export type WarningCode =
  /** Requests have `X-Forwarded-For`, which the framework was not told to trust. */
  | 'TOLLGATE_UNTRUSTED_PROXY'
  /** What a request took could not be given back. */
  | 'TOLLGATE_REFUND_FAILED'
  /** No key or cost could be made of a request. */
  | 'TOLLGATE_INVALID_INPUT'
  /** In shadow mode no decision could be made on a request. */
  | 'TOLLGATE_OBSERVE_FAILED'
  /** A length of time is a bare number below 1,000, which is milliseconds. */
  | 'TOLLGATE_SHORT_DURATION'

/** What is used of Node's `process`, which other platforms have not, or not all of. */
interface Warner {
  emitWarning?(message: string, options: { readonly type: string; readonly code: string }): void
}

/** Warns, and each time of something else: of every code once, or of every subject that has it. */
export class Warnings {
  readonly #given = new Set<string>()

  /** Whether there has been a warning of this code. */
  has(code: WarningCode): boolean {
    return this.#given.has(code)
  }

  /** Warns, if it is the first time for the subject. */
  once(code: WarningCode, message: string, subject: string = code): void {
    if (this.#given.has(subject)) {
      return
    }
    this.#given.add(subject)
    const { process } = globalThis as { readonly process?: Warner }
    if (typeof process?.emitWarning === 'function') {
      process.emitWarning(message, { type: 'TollgateWarning', code })
    } else {
      // biome-ignore lint/suspicious/noConsole: platforms without `process` have no other place for a warning.
      globalThis.console?.warn(`(${code}) TollgateWarning: ${message}`)
    }
  }
}

/** The message of an error, or what else was thrown. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
