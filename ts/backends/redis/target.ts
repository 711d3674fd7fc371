import type * as native from '../../../native.js'
import { TollgateError } from '../../api/error.js'
import { invalid, optionsOf, wholeNumber } from '../../input/options.js'
import type { RedisNode, RedisStoreOptions, RedisTlsOptions } from './options.js'
import { type Place, placeOf } from './url.js'

const LARGEST_PORT = 65_535
const DEFAULT_PORT = 6379
const SENTINEL_PORT = 26_379
const MOST_TAGS = 16_384
const MOST_NODES = 1_000
const LARGEST_DATABASE = 1_000_000

/** Which options each kind of place goes with, besides those that go with all. */
const PLACES = ['url', 'host', 'path', 'sentinel', 'cluster'] as const

/**
 * Where Redis is, for the native store.
 *
 * @throws {TollgateError} `INVALID_OPTION`
 */
export function targetOf(
  options: RedisStoreOptions,
  connectTimeoutMs: number,
  commandTimeoutMs: number,
): native.RedisTarget {
  const given = PLACES.filter((name) => options[name] !== undefined)
  if (given.length !== 1) {
    const rule = `needs exactly one of ${PLACES.join(', ')}, got ${given.join(' and ') || 'none'}`
    throw new TollgateError('INVALID_OPTION', `RedisStore ${rule}`)
  }
  if (options.port !== undefined && options.host === undefined) {
    throw new TollgateError('INVALID_OPTION', 'port goes with host')
  }
  const times = { connectTimeoutMs, commandTimeoutMs }
  if (options.sentinel !== undefined) {
    const { nodes, name, tls, ...login } = optionsOf('INVALID_OPTION', 'sentinel', options.sentinel, [
      'nodes',
      'name',
      'username',
      'password',
      'tls',
    ])
    return {
      ...times,
      cluster: false,
      addresses: nodesOf('sentinel.nodes', nodes, SENTINEL_PORT),
      master: filled('sentinel.name', name),
      access: accessOf(options, {}),
      sentinelAccess: { ...loginOf('sentinel.', login), asks: false, database: 0, ...tlsOf('sentinel.tls', tls) },
    }
  }
  if (options.cluster !== undefined) {
    const { nodes, tags } = optionsOf('INVALID_OPTION', 'cluster', options.cluster, ['nodes', 'tags'])
    if (options.database !== undefined && options.database !== 0) {
      throw invalid('INVALID_OPTION', 'database', 'must be 0 with cluster', options.database)
    }
    return {
      ...times,
      cluster: true,
      addresses: nodesOf('cluster.nodes', nodes, DEFAULT_PORT),
      access: accessOf(options, {}),
      ...(tags === undefined ? {} : { tags: wholeNumber('INVALID_OPTION', 'cluster.tags', tags, 1, MOST_TAGS) }),
    }
  }
  const place = options.url === undefined ? plain(options) : placeOf('url', options.url)
  return { ...times, cluster: false, addresses: [place.address], access: accessOf(options, place) }
}

/** What tells a database from all others in this process: not who asks it, and how. */
export function addressOf({ addresses, master = '', access }: native.RedisTarget): string {
  const places = addresses.map(({ host, port, path }) => (path === undefined ? `${host.toLowerCase()}:${port}` : path))
  return `${places.sort().join(',')}/${master}/${access.database}`
}

function plain({ host, port, path }: RedisStoreOptions): Place {
  if (path !== undefined) {
    return { address: { host: '', port: 0, path: filled('path', path) } }
  }
  return { address: nodeOf('', { host, ...(port === undefined ? {} : { port }) }, DEFAULT_PORT) }
}

/** The addresses of servers that belong together. */
export function nodesOf(option: string, nodes: unknown, port: number): native.RedisAddress[] {
  if (!Array.isArray(nodes) || nodes.length === 0 || nodes.length > MOST_NODES) {
    throw invalid('INVALID_OPTION', option, `must be an array of 1 to ${MOST_NODES} addresses`, nodes)
  }
  return nodes.map((node, index) => nodeOf(`${option}[${index}]`, node, port))
}

/** An address as `host`, `host:port`, `[::1]:port` or an object. */
function nodeOf(option: string, node: unknown, port: number): native.RedisAddress {
  if (typeof node === 'string') {
    const [, bracketed, bare, digits] = /^(?:\[([^\]]+)\]|([^:/@\s]+))(?::(\d{1,5}))?$/.exec(node) ?? []
    const host = bracketed ?? bare
    if (host === undefined) {
      // It may be a URL with a password.
      throw new TollgateError('INVALID_OPTION', `${option} must be host, host:port, [address]:port or { host, port }`)
    }
    return nodeOf(option, { host, ...(digits === undefined ? {} : { port: Number(digits) }) }, port)
  }
  const dot = option === '' ? '' : '.'
  const given: Partial<Record<keyof RedisNode, unknown>> = optionsOf('INVALID_OPTION', option || 'RedisStore', node, [
    'host',
    'port',
  ])
  const host = filled(`${option}${dot}host`, given.host)
  if (/^[^:]*:\d+$/.test(host)) {
    throw new TollgateError('INVALID_OPTION', `${option}${dot}host must be without its port, which is an option: port`)
  }
  return {
    host,
    port: wholeNumber('INVALID_OPTION', `${option}${dot}port`, given.port ?? port, 1, LARGEST_PORT),
  }
}

function accessOf(options: RedisStoreOptions, place: Partial<Place>): native.RedisAccess {
  const { credentials, database = place.database ?? 0 } = options
  if (credentials !== undefined && typeof credentials !== 'function') {
    throw invalid('INVALID_OPTION', 'credentials', 'must be a function', credentials)
  }
  const login = loginOf('', { username: place.username, password: place.password, ...given(options) })
  if (credentials !== undefined && (login.username !== undefined || login.password !== undefined)) {
    throw new TollgateError('INVALID_OPTION', 'credentials goes without username and password')
  }
  return {
    ...login,
    asks: credentials !== undefined,
    database: wholeNumber('INVALID_OPTION', 'database', database, 0, LARGEST_DATABASE),
    ...tlsOf('tls', options.tls ?? place.tls),
  }
}

/** Those options of a login that are there. */
function given({ username, password }: RedisStoreOptions): { username?: unknown; password?: unknown } {
  return { ...(username === undefined ? {} : { username }), ...(password === undefined ? {} : { password }) }
}

/** The messages tell no value: it may be a password. */
export function loginOf(
  option: string,
  { username, password }: { readonly username?: unknown; readonly password?: unknown },
): { username?: string; password?: string } {
  for (const [name, value] of Object.entries({ username, password })) {
    if (value !== undefined && (typeof value !== 'string' || value === '')) {
      throw new TollgateError('INVALID_OPTION', `${option}${name} must be a string that is not empty`)
    }
  }
  if (username !== undefined && password === undefined) {
    throw new TollgateError('INVALID_OPTION', `${option}username needs a password`)
  }
  return {
    ...(username === undefined ? {} : { username: username as string }),
    ...(password === undefined ? {} : { password: password as string }),
  }
}

function tlsOf(option: string, tls: unknown): { tls?: native.RedisTls } {
  if (tls === undefined || tls === false) {
    return {}
  }
  const all: Partial<Record<keyof RedisTlsOptions, unknown>> =
    tls === true ? {} : optionsOf('INVALID_OPTION', option, tls, ['ca', 'cert', 'key', 'serverName'])
  const { ca, cert, key, serverName } = all
  if ((cert === undefined) !== (key === undefined)) {
    throw new TollgateError('INVALID_OPTION', `${option}.cert and ${option}.key go together`)
  }
  return {
    tls: {
      ...(ca === undefined ? {} : { ca: pem(`${option}.ca`, ca) }),
      ...(cert === undefined ? {} : { cert: pem(`${option}.cert`, cert) }),
      ...(key === undefined ? {} : { key: pem(`${option}.key`, key) }),
      ...(serverName === undefined ? {} : { serverName: filled(`${option}.serverName`, serverName) }),
    },
  }
}

function pem(option: string, value: unknown): Buffer {
  if ((typeof value === 'string' && value !== '') || value instanceof Uint8Array) {
    return Buffer.from(value as string)
  }
  throw new TollgateError('INVALID_OPTION', `${option} must be text in PEM: a string or a Uint8Array`)
}

function filled(option: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') {
    return value
  }
  throw invalid('INVALID_OPTION', option, 'must be a string that is not empty', value)
}
