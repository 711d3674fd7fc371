/**
 * What a client's error says of a script: whether it has run, and whether it may yet.
 *
 * - `unknown-script`: it has not run, as the server does not know it.
 * - `not-now`: it has not run, as the server cannot run anything just now.
 * - `unavailable`: it was not sent.
 * - `refused`: it has not run, or has charged nothing.
 * - `broken`: nobody knows.
 */
export interface Verdict {
  readonly kind: 'unknown-script' | 'not-now' | 'unavailable' | 'refused' | 'broken'
  /** Holds no key. */
  readonly why: string
}

/** The numbers of failures in `src/wasm/redis_flush.rs`. */
export const FAILURES = { unavailable: 0, broken: 1, timedOut: 2, refused: 3 } as const

const NOT_NOW = ['BUSY', 'CLUSTERDOWN', 'LOADING', 'MASTERDOWN', 'READONLY', 'TRYAGAIN']

/** What else servers begin their errors with, of which each says that nothing was charged. */
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

/** Why no connection could be made. */
const NOT_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']

/** How a server's error begins, behind what clients put before it. */
const REPLY = /^(?:Command failed: |ReplyError: )?([A-Z]+)(?: |$)/

/** What is known of a client's error. Only what is surely a server's own says that the script has not run. */
export function verdictOf(error: unknown): Verdict {
  const { message, code, cause } = (typeof error === 'object' && error !== null ? error : {}) as ErrorLike
  // @upstash/redis appends the command, and that has the keys.
  const text = (typeof message === 'string' ? message : '').split(', command was: ')[0] as string
  const reply = REPLY.exec(text)?.[1] ?? ''
  if (reply === 'NOSCRIPT') {
    return { kind: 'unknown-script', why: text }
  }
  if (NOT_NOW.includes(reply)) {
    return { kind: 'not-now', why: text }
  }
  if (REFUSED.includes(reply)) {
    return { kind: 'refused', why: text }
  }
  // What else a client says may hold a URL, and that a password.
  const known = [code, cause?.code].find((known) => typeof known === 'string')
  const kind = NOT_SENT.includes(known as string) ? 'unavailable' : 'broken'
  return { kind, why: (known as string | undefined) ?? 'the client failed' }
}

interface ErrorLike {
  readonly message?: unknown
  readonly code?: unknown
  readonly cause?: { readonly code?: unknown }
}
