import type * as native from '../../../generated/native.js'
import { TollgateError } from '../../api/error.js'
import { CLIENT_ADVICE } from '../../api/limiter-options.js'

export interface RedisLocation {
  readonly address: native.RedisAddress
  readonly username?: string
  readonly password?: string
  readonly database?: number
  readonly tls?: true
}

const SCHEMES: ReadonlyMap<string, boolean> = new Map([
  ['redis:', false],
  ['rediss:', true],
  ['valkey:', false],
  ['valkeys:', true],
])
const UNIX = ['redis+unix:', 'unix:']

/** Parameters that other clients need, and values of theirs that change nothing here. */
const HARMLESS: Readonly<Record<string, RegExp>> = {
  // All addresses of a name are tried.
  family: /^(0|4|6|IPv4|IPv6)$/,
  protocol: /^[23]$/,
  ssl_cert_reqs: /^(required|CERT_REQUIRED)$/,
}

/** Advice on parameters of other clients, by their names. */
const INSTEAD: readonly (readonly [name: RegExp, instead: string])[] = [
  [
    /cert_reqs|reject_?unauthorized|verif|insecure|check_hostname/i,
    'certificates are always verified: trust one with the option tls: { ca }',
  ],
  [/^(tls|ssl|use_?ssl)$/i, 'write rediss://'],
  [/^(tls|ssl|sni|ca|cert|server_?name|key(_?file)?$)/i, 'use the option tls'],
  [/^(user|username|pass|password|auth)$/i, 'use the options username and password'],
  [/^(database|db_?(name|number|index))$/i, 'use the option database, or the parameter db'],
  [/^(connect|dial)/i, 'use the option connectTimeout'],
  [/idle_?check|health_?check|ping_?interval/i, 'use the option idleCheck'],
  [/timeout/i, 'use the option commandTimeout'],
  [/max_?pending|queue/i, 'use the option maxPending'],
  [/sentinel|master/i, 'use the option sentinel'],
  [/cluster/i, 'use the option cluster'],
  [/prefix/i, 'use the option prefix of the limiter'],
]

/** Advice on parameters of a socket's URL. */
const SOCKET_INSTEAD: typeof INSTEAD = [
  [/^(tls|ssl|use_?ssl|sni)/i, 'a socket has no TLS: leave it out'],
  [/^(username|password|auth)$/i, 'use the parameters user and pass'],
  ...INSTEAD,
]

/** A character of a password, before the last @, that ends the part of a URL in which passwords are. */
const RAW_IN_PASSWORD = /^[a-z]+:\/\/[^@/?#]*[/?#][^@]*@/i

const ENCODE = 'must have the password percent-encoded, as encodeURIComponent does: # is %23, / is %2F, ? is %3F'

/** Parses a Redis URL. Messages contain no part that may be a password. @throws {TollgateError} `INVALID_OPTION` */
export function parseRedisUrl(option: string, text: unknown): RedisLocation {
  const urlError = (rule: string) => new TollgateError('INVALID_OPTION', `${option} ${rule}`)
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined
  const [scheme = ''] = typeof text === 'string' ? text.split(/(?<=:)/, 1) : []
  const isTcp = SCHEMES.has(scheme.toLowerCase())
  if (isTcp && RAW_IN_PASSWORD.test(text as string)) {
    throw urlError(ENCODE)
  }
  if (url === undefined || !(isTcp || UNIX.includes(url.protocol))) {
    const advice = adviceOn(typeof text === 'string' ? text : '')
    throw urlError(`must be a Redis URL: redis://, rediss:// (TLS) or redis+unix://${advice}`)
  }
  if (url.hash !== '') {
    throw urlError('must have no fragment (#…); a # in a password is %23')
  }
  return isTcp ? tcp(url, urlError) : unix(url, urlError)
}

function adviceOn(text: string): string {
  if (/^https?:/i.test(text)) {
    return `; over HTTP, ${CLIENT_ADVICE}`
  }
  if (/,\s*(password|ssl|abortConnect)=/i.test(text)) {
    return '; instead of this connection string use the options host, port, password and tls: true'
  }
  const [, kind] = /^[a-z]+[+-](sentinel|cluster):/i.exec(text) ?? []
  return kind === undefined ? '' : `; use the option ${kind.toLowerCase()}`
}

type UrlErrorFactory = (rule: string) => TollgateError

function tcp(url: URL, urlError: UrlErrorFactory): RedisLocation {
  if (url.hostname === '') {
    throw urlError('must name a host')
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const path = url.pathname.replace(/^\//, '')
  const database = databaseOfQuery(url.searchParams, urlError) ?? (path === '' ? undefined : path)
  if (path !== '' && database !== path) {
    throw urlError('must name the database once: in its path, or as ?db')
  }
  return {
    address: { host: decoded(host, urlError), port: url.port === '' ? 6379 : Number(url.port) },
    ...login(url.username, url.password, urlError),
    ...(database === undefined ? {} : { database: databaseOf(database, urlError) }),
    ...(SCHEMES.get(url.protocol) === true ? { tls: true } : {}),
  }
}

/** Checks the query of a URL, and returns the database that it names. */
function databaseOfQuery(
  query: URLSearchParams,
  urlError: UrlErrorFactory,
  known: readonly string[] = ['db'],
  advice = INSTEAD,
): string | undefined {
  for (const [name, value] of query) {
    if (known.includes(name) || HARMLESS[name]?.test(value)) {
      continue
    }
    // A longer name may be a part of a password.
    const shown = /^[A-Za-z][\w-]{0,31}$/.test(name) ? `query parameter ${name}` : 'such query parameter'
    const instead = advice.find(([pattern]) => pattern.test(name))?.[1] ?? 'leave it out'
    throw urlError(`must have no ${shown}: ${instead}`)
  }
  return query.get('db') ?? undefined
}

/** The parameters of the query are those of other clients. */
function unix(url: URL, urlError: UrlErrorFactory): RedisLocation {
  if (url.host !== '' || url.pathname.length < 2) {
    throw urlError('must name a path: redis+unix:///path/to/socket')
  }
  const database = databaseOfQuery(url.searchParams, urlError, ['db', 'user', 'pass'], SOCKET_INSTEAD)
  return {
    address: { host: '', port: 0, path: decoded(url.pathname, urlError) },
    ...login(url.searchParams.get('user') ?? '', url.searchParams.get('pass') ?? '', (rule) => urlError(rule), false),
    ...(database === undefined ? {} : { database: databaseOf(database, urlError) }),
  }
}

function login(
  username: string,
  password: string,
  urlError: UrlErrorFactory,
  isEncoded = true,
): { username?: string; password?: string } {
  const text = (part: string) => (isEncoded ? decoded(part, urlError) : part)
  return {
    ...(username === '' ? {} : { username: text(username) }),
    ...(password === '' ? {} : { password: text(password) }),
  }
}

function databaseOf(text: string, urlError: UrlErrorFactory): number {
  if (!/^\d{1,6}$/.test(text)) {
    throw urlError('must name the database by its number: redis://host:port/number')
  }
  return Number(text)
}

function decoded(text: string, urlError: UrlErrorFactory): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw urlError('must be percent-encoded: a % must precede two hexadecimal digits')
  }
}
