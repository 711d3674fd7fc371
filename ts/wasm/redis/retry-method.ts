/**
 * What a client's error means for a script, and so whether to send it again:
 *
 * - `unknown-script`: it has not run, because the server does not have it.
 * - `not-now`: it has not run, because the server cannot run scripts at present.
 * - `unavailable`: it was not sent.
 * - `refused`: it has not run, or has charged nothing.
 * - `broken`: its outcome is unknown.
 */
export interface RetryMethod {
  readonly kind: 'unknown-script' | 'not-now' | 'unavailable' | 'refused' | 'broken'
  /** The reason, without keys. */
  readonly reason: string
}

/** The failure codes of `src/wasm/redis_flush.rs`. */
export const FAILURES = { unavailable: 0, broken: 1, timedOut: 2, refused: 3 } as const

const NOT_NOW = ['BUSY', 'CLUSTERDOWN', 'LOADING', 'MASTERDOWN', 'READONLY', 'TRYAGAIN']

/** Other codes of server errors. Each means that nothing was charged. */
const REFUSED = [
  'ASK',
  'CROSSSLOT',
  'DENIED',
  'ERR',
  'EXECABORT',
  'MISCONF',
  'MOVED',
  'NOAUTH',
  'NOPERM',
  'NOREPLICAS',
  'OOM',
  'WRONGPASS',
  'WRONGTYPE',
]

/** Codes of failed connection attempts. */
const NOT_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']

/** The code at the start of a server's error, after the prefixes that clients add. */
const REPLY = /^(?:Command failed: |ReplyError: )?([A-Z]+)(?: |$)/

/**
 * Classifies a client's error. Only an error that is certainly the server's own means that the
 * script has not run.
 */
export function retryMethodOf(error: unknown): RetryMethod {
  const { message, code, cause } = (typeof error === 'object' && error !== null ? error : {}) as ErrorLike
  // @upstash/redis appends the command, which has the keys.
  const text = (typeof message === 'string' ? message : '').split(', command was: ')[0] as string
  const reply = REPLY.exec(text)?.[1] ?? ''
  if (reply === 'NOSCRIPT') {
    return { kind: 'unknown-script', reason: text }
  }
  if (NOT_NOW.includes(reply)) {
    return { kind: 'not-now', reason: text }
  }
  if (REFUSED.includes(reply)) {
    return { kind: 'refused', reason: text }
  }
  // Other messages of clients may contain a URL with a password.
  const known = [code, cause?.code].find((known) => typeof known === 'string')
  const kind = NOT_SENT.includes(known as string) ? 'unavailable' : 'broken'
  return { kind, reason: (known as string | undefined) ?? 'the client failed' }
}

interface ErrorLike {
  readonly message?: unknown
  readonly code?: unknown
  readonly cause?: { readonly code?: unknown }
}
