import type * as native from '../../../native.js'
import { TollgateError } from '../../api/error.js'
import { CLIENT_ADVICE } from '../../api/limiter-options.js'

/** A server, with the connection options of its URL. */
export interface RedisLocation {
  readonly address: native.RedisAddress
  readonly username?: string
  readonly password?: string
  readonly database?: number
  readonly tls?: true
}

const TCP = ['redis:', 'rediss:']
const UNIX = ['redis+unix:', 'unix:']

/**
 * Parses a Redis URL. Messages contain no part of it, since it may hold a password.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 */
export function parseRedisUrl(option: string, text: unknown): RedisLocation {
  const urlError = (rule: string) => new TollgateError('INVALID_OPTION', `${option} ${rule}`)
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || ![...TCP, ...UNIX].includes(url.protocol)) {
    const advice = url?.protocol.startsWith('http') ? `; over HTTP, ${CLIENT_ADVICE}` : ''
    throw urlError(`must be a Redis URL: redis://, rediss:// (TLS) or redis+unix://${advice}`)
  }
  if (url.hash !== '') {
    throw urlError('must have no fragment (#…)')
  }
  return TCP.includes(url.protocol) ? tcp(url, urlError) : unix(url, urlError)
}

type UrlErrorFactory = (rule: string) => TollgateError

function tcp(url: URL, urlError: UrlErrorFactory): RedisLocation {
  if (url.hostname === '') {
    throw urlError('must name a host')
  }
  if (url.search !== '') {
    throw urlError('must have no query (?…)')
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const path = url.pathname.replace(/^\//, '')
  return {
    address: { host: decoded(host, urlError), port: url.port === '' ? 6379 : Number(url.port) },
    ...login(url.username, url.password, urlError),
    ...(path === '' ? {} : { database: databaseOf(path, urlError) }),
    ...(url.protocol === 'rediss:' ? { tls: true } : {}),
  }
}

/** The query parameters of a socket's URL, as in other clients. */
const SOCKET_QUERY_NAMES = ['db', 'user', 'pass']

function unix(url: URL, urlError: UrlErrorFactory): RedisLocation {
  if (url.host !== '' || url.pathname.length < 2) {
    throw urlError('must name a path: redis+unix:///path/to/socket')
  }
  for (const name of url.searchParams.keys()) {
    if (!SOCKET_QUERY_NAMES.includes(name)) {
      throw urlError(`must have no query parameters other than ${SOCKET_QUERY_NAMES.join(', ')}`)
    }
  }
  const database = url.searchParams.get('db')
  return {
    address: { host: '', port: 0, path: decoded(url.pathname, urlError) },
    ...login(url.searchParams.get('user') ?? '', url.searchParams.get('pass') ?? '', (rule) => urlError(rule), false),
    ...(database === null ? {} : { database: databaseOf(database, urlError) }),
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
