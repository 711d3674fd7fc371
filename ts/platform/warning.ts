/** The codes of this package's warnings, emitted by `process.emitWarning`. */
export type WarningCode =
  /** A request has `X-Forwarded-For`, but the framework does not trust the proxy that it came from. */
  | 'TOLLGATE_UNTRUSTED_PROXY'
  /** The framework trusts every proxy, so clients can choose their address. */
  | 'TOLLGATE_PERMISSIVE_PROXY'
  /** The framework trusts more proxies than a request has passed, so clients may choose their address. */
  | 'TOLLGATE_TOO_MANY_PROXIES'
  /** One limiter counted a request twice. */
  | 'TOLLGATE_COUNTED_TWICE'
  /** The units that a request took could not be refunded. */
  | 'TOLLGATE_REFUND_FAILED'
  /** The context of a GraphQL operation does not show whether its client has disconnected. */
  | 'TOLLGATE_UNSEEN_CLIENT'
  /** A request gave no valid key or cost. */
  | 'TOLLGATE_INVALID_INPUT'
  /** A request was answered with an error, because its limiter could not decide. */
  | 'TOLLGATE_NO_DECISION'
  /** In shadow mode a request could not be decided. */
  | 'TOLLGATE_OBSERVE_FAILED'
  /** The policies that a limiter should be updated to could not be read or used. */
  | 'TOLLGATE_UPDATE_FAILED'
  /** Another limiter of a store has the same prefix with other numbers. */
  | 'TOLLGATE_OTHER_NUMBERS'
  /** A duration is a bare number below 1,000, which means milliseconds. */
  | 'TOLLGATE_SHORT_DURATION'
  /** The store of a limiter is given as `undefined`, so each process counts alone. */
  | 'TOLLGATE_UNDEFINED_STORE'
  /** A hit of express-rate-limit could not be taken back. */
  | 'TOLLGATE_DECREMENT'
  /** The usage of a call of a language model could not be charged. */
  | 'TOLLGATE_USAGE_NOT_CHARGED'
  /** The pause that a provider of language models asks for could not be stored. */
  | 'TOLLGATE_PAUSE_NOT_STORED'

/** The part of Node's `process` that is used. Other platforms may not have it. */
interface WarningEmitter {
  emitWarning?(
    message: string,
    options: { readonly type: string; readonly code: string; readonly detail: string },
  ): void
}

export class Warnings {
  readonly #emitted = new Set<string>()

  /** Whether a warning of this code was emitted. */
  has(code: WarningCode): boolean {
    return this.#emitted.has(code)
  }

  once(code: WarningCode, message: string, subject: string = code): void {
    if (this.#emitted.has(subject)) {
      return
    }
    this.#emitted.add(subject)
    warn(code, message)
  }
}

/** Emits a warning. Its detail, which Node.js prints on a line of its own, names the page with the cause and the fix. */
export function warn(code: WarningCode, message: string): void {
  const detail = `See docs/troubleshooting.md#${code.toLowerCase()}`
  const { process } = globalThis as { readonly process?: WarningEmitter }
  if (typeof process?.emitWarning === 'function') {
    process.emitWarning(message, { type: 'TollgateWarning', code, detail })
  } else {
    // biome-ignore lint/suspicious/noConsole: platforms without `process` have no other place for a warning.
    globalThis.console?.warn(`(${code}) TollgateWarning: ${message}\n${detail}`)
  }
}

/** The message of an error, or the thrown value as text. */
export function reasonOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error)
  } catch {
    return 'an error whose members cannot be read'
  }
}
