import type { WarningCode } from '../../platform/warning.js'

/** A request with `X-Forwarded-For`, and how its framework takes the client's address from it. */
export interface ForwardedRequest {
  /** The header's value. */
  readonly forwardedFor: unknown
  /** The address of the other end of the connection. */
  readonly peer: string | undefined
  /** The client's address, as the framework reports it. */
  readonly client: string | undefined
  /**
   * The framework's setting, if it can be read: whether it trusts every proxy, or the number of
   * proxies that it trusts.
   */
  readonly trusted?: unknown
}

/** A mistake in the settings of a framework. */
export interface ProxyMistake {
  readonly code: WarningCode
  readonly message: string
}

const ADVICE =
  'Set the addresses of your proxies (Express: trust proxy; Fastify: trustProxy, which ignores numbers; Koa: proxy and ' +
  'maxIpsCount), or pass a key function'

/**
 * The mistake in a framework's settings that a request shows, if it shows one.
 *
 * A client can write the header, too, so a request may show a mistake that there is not.
 */
export function proxyMistake({ forwardedFor, peer, client, trusted }: ForwardedRequest): ProxyMistake | undefined {
  if (trusted === true) {
    const message =
      'the framework is configured to trust every proxy: a client can write any address into X-Forwarded-For, and so ' +
      `use a new key for each request\n${ADVICE}`
    return { code: 'TOLLGATE_PERMISSIVE_PROXY', message }
  }
  const entries = entriesOf(forwardedFor)
  if (entries.length === 0) {
    return undefined
  }
  // A program on the proxy's own machine has the proxy's address.
  if (client === peer && entries.at(-1) !== peer) {
    const message =
      'a request has X-Forwarded-For, but the framework does not trust the proxy that it came from: all clients behind ' +
      `one share one limit\n${ADVICE}`
    return { code: 'TOLLGATE_UNTRUSTED_PROXY', message }
  }
  if (typeof trusted === 'number' && entries.length < trusted) {
    const message =
      `the framework is configured to trust ${trusted} proxies, but a request has only ${entries.length} addresses in ` +
      'X-Forwarded-For: if there are fewer proxies, a client can write its own address, and so use a new key for each ' +
      `request\n${ADVICE}`
    return { code: 'TOLLGATE_TOO_MANY_PROXIES', message }
  }
  return undefined
}

/** The addresses in a header, which may have been sent several times. */
function entriesOf(header: unknown): readonly string[] {
  const texts = Array.isArray(header) ? header : [header]
  return texts
    .flatMap((text) => (typeof text === 'string' ? text.split(',') : []))
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}
