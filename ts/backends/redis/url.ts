import type * as native from '../../../native.js'
import { TollgateError } from '../../api/error.js'
import { CLIENT_ADVICE } from '../../api/limiter-options.js'

/** A server, and what its URL says of how it is reached. */
export interface Place {
  readonly address: native.RedisAddress
  readonly username?: string
  readonly password?: string
  readonly database?: number
  readonly tls?: true
}

const TCP = ['redis:', 'rediss:']
const UNIX = ['redis+unix:', 'unix:']

/**
 * Reads a Redis URL. What the messages say holds nothing of it, since it may hold a password.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 */
export function placeOf(option: string, text: unknown): Place {
  const wrong = (rule: string) => new TollgateError('INVALID_OPTION', `${option} ${rule}`)
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || ![...TCP, ...UNIX].includes(url.protocol)) {
    const advice = url?.protocol.startsWith('http') ? `; over HTTP, ${CLIENT_ADVICE}` : ''
    throw wrong(`must be a Redis URL: redis://, rediss:// (TLS) or redis+unix://${advice}`)
  }
  if (url.hash !== '') {
    throw wrong('must have no fragment (#…)')
  }
  return TCP.includes(url.protocol) ? tcp(url, wrong) : unix(url, wrong)
}

type Wrong = (rule: string) => TollgateError

function tcp(url: URL, wrong: Wrong): Place {
  if (url.hostname === '') {
    throw wrong('must name a host')
  }
  if (url.search !== '') {
    throw wrong('must have no query (?…)')
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const path = url.pathname.replace(/^\//, '')
  return {
    address: { host: decoded(host, wrong), port: url.port === '' ? 6379 : Number(url.port) },
    ...login(url.username, url.password, wrong),
    ...(path === '' ? {} : { database: databaseOf(path, wrong) }),
    ...(url.protocol === 'rediss:' ? { tls: true } : {}),
  }
}

/** What the query of a URL of a socket may say, as other clients have it. */
const OF_SOCKETS = ['db', 'user', 'pass']

function unix(url: URL, wrong: Wrong): Place {
  if (url.host !== '' || url.pathname.length < 2) {
    throw wrong('must name a path: redis+unix:///path/to/socket')
  }
  for (const name of url.searchParams.keys()) {
    if (!OF_SOCKETS.includes(name)) {
      throw wrong(`must have no other query than ${OF_SOCKETS.join(', ')}`)
    }
  }
  const database = url.searchParams.get('db')
  return {
    address: { host: '', port: 0, path: decoded(url.pathname, wrong) },
    ...login(url.searchParams.get('user') ?? '', url.searchParams.get('pass') ?? '', (rule) => wrong(rule), false),
    ...(database === null ? {} : { database: databaseOf(database, wrong) }),
  }
}

function login(
  username: string,
  password: string,
  wrong: Wrong,
  isEncoded = true,
): { username?: string; password?: string } {
  const text = (part: string) => (isEncoded ? decoded(part, wrong) : part)
  return {
    ...(username === '' ? {} : { username: text(username) }),
    ...(password === '' ? {} : { password: text(password) }),
  }
}

function databaseOf(text: string, wrong: Wrong): number {
  if (!/^\d{1,6}$/.test(text)) {
    throw wrong('must name the database by its number: redis://host:port/number')
  }
  return Number(text)
}

function decoded(text: string, wrong: Wrong): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw wrong('must be encoded as URLs are: a % stands before two hexadecimal digits')
  }
}
