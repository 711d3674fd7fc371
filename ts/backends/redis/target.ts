import type * as native from '../../../generated/native.js'
import { TollgateError } from '../../api/error.js'
import { invalid, optionsOf, trueOrFalse, wholeNumber } from '../../input/options.js'
import type { RedisStoreOptions } from './options.js'
import { parseRedisUrl, type RedisLocation } from './url.js'

const MAX_PORT = 65_535
const DEFAULT_PORT = 6379
const SENTINEL_PORT = 26_379
const MAX_TAGS = 16_384
const MAX_NODES = 1_000
/** The default of `idleCheck`. */
export const DEFAULT_IDLE_CHECK_MS = 15_000
const MAX_DATABASE = 1_000_000

/** The options that locate Redis, of which exactly one is given. */
const LOCATION_OPTIONS = ['url', 'host', 'path', 'sentinel', 'cluster'] as const

/** The connection options of the native store. @throws {TollgateError} `INVALID_OPTION` */
export function targetOf(
  options: RedisStoreOptions,
  connectTimeoutMs: number,
  commandTimeoutMs: number,
  idleCheckMs = DEFAULT_IDLE_CHECK_MS,
): native.RedisTarget {
  const locations = LOCATION_OPTIONS.filter((name) => options[name] !== undefined)
  if (locations.length !== 1) {
    const rule = `needs exactly one of ${LOCATION_OPTIONS.join(', ')}, got ${locations.join(' and ') || 'none'}`
    throw new TollgateError('INVALID_OPTION', `RedisStore ${rule}`)
  }
  if (options.port !== undefined && options.host === undefined) {
    throw new TollgateError('INVALID_OPTION', 'port requires host')
  }
  const { oneKeyPerScript = false } = options
  const shared = {
    connectTimeoutMs,
    commandTimeoutMs,
    idleCheckMs,
    oneKeyPerScript: trueOrFalse('INVALID_OPTION', 'oneKeyPerScript', oneKeyPerScript),
  }
  if (options.sentinel !== undefined) {
    const { nodes, name, tls, natMap, ...login } = optionsOf('INVALID_OPTION', 'sentinel', options.sentinel, [
      'nodes',
      'name',
      'username',
      'password',
      'tls',
      'natMap',
    ])
    return {
      ...shared,
      cluster: false,
      addresses: nodesOf('sentinel.nodes', nodes, SENTINEL_PORT),
      natMap: natMapOf('sentinel.natMap', natMap),
      master: nonEmptyString('sentinel.name', name),
      access: accessOf(options, {}),
      sentinelAccess: {
        ...loginOf('sentinel.', login),
        hasProvider: false,
        database: 0,
        ...tlsOf('sentinel.tls', tls),
      },
    }
  }
  if (options.cluster !== undefined) {
    const { nodes, tags, natMap } = optionsOf('INVALID_OPTION', 'cluster', options.cluster, ['nodes', 'tags', 'natMap'])
    if (options.database !== undefined && options.database !== 0) {
      throw invalid('INVALID_OPTION', 'database', 'must be 0 with cluster', options.database)
    }
    if (oneKeyPerScript) {
      throw invalid('INVALID_OPTION', 'oneKeyPerScript', 'must be false with cluster', oneKeyPerScript)
    }
    return {
      ...shared,
      cluster: true,
      addresses: nodesOf('cluster.nodes', nodes, DEFAULT_PORT),
      natMap: natMapOf('cluster.natMap', natMap),
      access: accessOf(options, {}),
      ...(tags === undefined ? {} : { tags: wholeNumber('INVALID_OPTION', 'cluster.tags', tags, 1, MAX_TAGS) }),
    }
  }
  const location = options.url === undefined ? locationOf(options) : parseRedisUrl('url', options.url)
  return { ...shared, cluster: false, addresses: [location.address], natMap: [], access: accessOf(options, location) }
}

/** Identifies a database in this process, independent of login and TLS. */
export function addressOf({ addresses, master = '', access }: native.RedisTarget): string {
  const servers = addresses.map(({ host, port, path }) => (path === undefined ? `${host.toLowerCase()}:${port}` : path))
  return `${servers.sort().join(',')}/${master}/${access.database}`
}

function locationOf({ host, port, path }: RedisStoreOptions): RedisLocation {
  if (path !== undefined) {
    return { address: { host: '', port: 0, path: nonEmptyString('path', path) } }
  }
  return { address: nodeOf('', { host, ...(port === undefined ? {} : { port }) }, DEFAULT_PORT) }
}

export function nodesOf(option: string, nodes: unknown, port: number): native.RedisAddress[] {
  if (!Array.isArray(nodes) || nodes.length === 0 || nodes.length > MAX_NODES) {
    throw invalid('INVALID_OPTION', option, `must be an array of 1 to ${MAX_NODES} addresses`, nodes)
  }
  return nodes.map((node, index) => nodeOf(`${option}[${index}]`, node, port))
}

/** The servers to connect to, by the addresses that nodes and sentinels report. */
function natMapOf(option: string, natMap: unknown = {}): native.RedisNat[] {
  if (typeof natMap !== 'object' || natMap === null || Array.isArray(natMap)) {
    throw invalid(
      'INVALID_OPTION',
      option,
      "must be an object such as { '10.0.0.1:6379': 'redis.example:7001' }",
      natMap,
    )
  }
  return Object.entries(natMap).map(([reported, reachable]) => {
    const name = `${option}[${JSON.stringify(reported)}]`
    return {
      reported: nodeOf(`the key of ${name}`, reported, DEFAULT_PORT),
      reachable: nodeOf(name, reachable, DEFAULT_PORT),
    }
  })
}

function nodeOf(option: string, node: unknown, port: number): native.RedisAddress {
  if (typeof node === 'string') {
    const [, bracketed, bare, digits] = /^(?:\[([^\]]+)\]|([^:/@\s]+))(?::(\d{1,5}))?$/.exec(node) ?? []
    const host = bracketed ?? bare
    if (host === undefined) {
      // The message has no value: it may be a URL with a password.
      throw new TollgateError('INVALID_OPTION', `${option} must be host, host:port, [address]:port or { host, port }`)
    }
    return nodeOf(option, { host, ...(digits === undefined ? {} : { port: Number(digits) }) }, port)
  }
  const dot = option === '' ? '' : '.'
  const checked: { readonly [Part in 'host' | 'port']?: unknown } = optionsOf(
    'INVALID_OPTION',
    option || 'RedisStore',
    node,
    ['host', 'port'],
  )
  const host = nonEmptyString(`${option}${dot}host`, checked.host)
  if (/^[^:]*:\d+$/.test(host)) {
    throw new TollgateError('INVALID_OPTION', `${option}${dot}host must not contain a port: use the option port`)
  }
  return {
    host,
    port: wholeNumber('INVALID_OPTION', `${option}${dot}port`, checked.port ?? port, 1, MAX_PORT),
  }
}

function accessOf(options: RedisStoreOptions, location: Partial<RedisLocation>): native.RedisAccess {
  const { credentials, database = location.database ?? 0 } = options
  if (credentials !== undefined && typeof credentials !== 'function') {
    throw invalid('INVALID_OPTION', 'credentials', 'must be a function', credentials)
  }
  const login = loginOf('', { username: location.username, password: location.password, ...loginOptionsOf(options) })
  if (credentials !== undefined && (login.username !== undefined || login.password !== undefined)) {
    throw new TollgateError('INVALID_OPTION', 'credentials cannot be combined with username and password')
  }
  return {
    ...login,
    hasProvider: credentials !== undefined,
    database: wholeNumber('INVALID_OPTION', 'database', database, 0, MAX_DATABASE),
    ...tlsOf('tls', options.tls ?? location.tls),
  }
}

function loginOptionsOf({ username, password }: RedisStoreOptions): { username?: unknown; password?: unknown } {
  return { ...(username === undefined ? {} : { username }), ...(password === undefined ? {} : { password }) }
}

/** Checks a login. The messages have no values: they may be passwords. */
export function loginOf(
  option: string,
  { username, password }: { readonly username?: unknown; readonly password?: unknown },
): { username?: string; password?: string } {
  for (const [name, value] of Object.entries({ username, password })) {
    if (value !== undefined && (typeof value !== 'string' || value === '')) {
      throw new TollgateError('INVALID_OPTION', `${option}${name} must be a non-empty string`)
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
  const all: { readonly [Name in 'ca' | 'cert' | 'key' | 'serverName']?: unknown } =
    tls === true ? {} : optionsOf('INVALID_OPTION', option, tls, ['ca', 'cert', 'key', 'serverName'])
  const { ca, cert, key, serverName } = all
  if ((cert === undefined) !== (key === undefined)) {
    throw new TollgateError('INVALID_OPTION', `${option}.cert and ${option}.key must be given together`)
  }
  return {
    tls: {
      ...(ca === undefined ? {} : { ca: pem(`${option}.ca`, ca) }),
      ...(cert === undefined ? {} : { cert: pem(`${option}.cert`, cert) }),
      ...(key === undefined ? {} : { key: pem(`${option}.key`, key) }),
      ...(serverName === undefined ? {} : { serverName: nonEmptyString(`${option}.serverName`, serverName) }),
    },
  }
}

function pem(option: string, value: unknown): Buffer {
  if ((typeof value === 'string' && value !== '') || value instanceof Uint8Array) {
    return Buffer.from(value as string)
  }
  throw new TollgateError('INVALID_OPTION', `${option} must be text in PEM: a string or a Uint8Array`)
}

function nonEmptyString(option: string, value: unknown): string {
  if (typeof value === 'string' && value !== '') {
    return value
  }
  throw invalid('INVALID_OPTION', option, 'must be a non-empty string', value)
}
