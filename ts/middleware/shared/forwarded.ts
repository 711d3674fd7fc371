import type { WarningCode } from '../../platform/warning.js'

/** The parts of a request, and of its framework's settings, by which the framework finds the client's address. */
export interface ForwardedRequest {
  /** The value of `X-Forwarded-For`. */
  readonly forwardedFor: unknown
  /** The address of the other end of the connection. */
  readonly peer: string | undefined
  /** The client's address, as the framework reports it. */
  readonly client: string | undefined
  /** The framework's setting, if it can be read: whether it trusts every proxy, or the number of proxies it trusts. */
  readonly trusted?: unknown
}

const ADVICE =
  'Set the addresses of your proxies (Express: trust proxy; Fastify: trustProxy, which ignores numbers; Koa: proxy and ' +
  'maxIpsCount), or pass a key function'

/** The mistake in a framework's settings that a request shows. It may be none: clients can write the header. */
export function proxyMistake({
  forwardedFor,
  peer,
  client,
  trusted,
}: ForwardedRequest): { readonly code: WarningCode; readonly message: string } | undefined {
  if (trusted === true) {
    const message =
      'the framework is configured to trust every proxy: a client can write any address into X-Forwarded-For, and so ' +
      `use a new key for each request\n${ADVICE}`
    return { code: 'TOLLGATE_PERMISSIVE_PROXY', message }
  }
  // Most requests have no such header.
  const entries = forwardedFor === undefined ? [] : entriesOf(forwardedFor)
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
      `the framework trusts ${trusted} proxies, but X-Forwarded-For of a request has fewer addresses ` +
      `(${entries.length}): if there are fewer proxies, a client can write its own address\n${ADVICE}`
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
