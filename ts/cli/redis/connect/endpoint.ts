import { readFileSync } from 'node:fs'
import type { RedisStoreOptions } from '../../../backends/redis/options.js'
import { parseRedisUrl } from '../../../backends/redis/url.js'
import { environmentError, fromUniqueEntries, usageError } from '../../failure.js'
import type { Terminal } from '../../terminal.js'

export interface EndpointOptions {
  readonly urlFile?: string
  readonly sentinel?: string
  readonly clusterTags?: number
  /** Pairs of addresses, `reported=reachable`: the store's `natMap`. */
  readonly nat?: readonly string[]
  readonly ca?: string
  readonly cert?: string
  readonly certKey?: string
  readonly serverName?: string
}

interface RedisEndpoint {
  /** Options for a store. For a cluster they hold only the one node that is known so far. */
  readonly options: RedisStoreOptions
  /** Whether other users of this machine can read the password in the list of processes. */
  readonly isExposed: boolean
}
/** Reads the address of Redis from the URL, a file, or `REDIS_URL`. No message contains any part of the URL. */
export function redisEndpointOf(
  url: string | undefined,
  given: EndpointOptions,
  { env }: Pick<Terminal, 'env'>,
): RedisEndpoint {
  const { REDIS_URL, REDIS_USERNAME, REDIS_PASSWORD, REDIS_SENTINEL_PASSWORD } = env
  if (url !== undefined && given.urlFile !== undefined) {
    throw usageError('the URL and --url-file exclude each other')
  }
  const where = url !== undefined ? 'the URL' : given.urlFile !== undefined ? '--url-file: the URL' : 'REDIS_URL'
  const text = url ?? (given.urlFile === undefined ? REDIS_URL : readFile('--url-file', given.urlFile).trim())
  if (text === undefined || text === '') {
    throw usageError('the URL of Redis is missing: pass it as an argument, in REDIS_URL, or in a file by --url-file')
  }
  const endpoint = parseRedisUrl(where, text)
  const { address } = endpoint
  const password = endpoint.password ?? (REDIS_PASSWORD || undefined)
  const username = endpoint.username ?? (REDIS_USERNAME || undefined)
  const login = {
    ...(username === undefined || password === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  }
  const tls = tlsOf(given, endpoint.tls === true)
  const common = { ...login, ...tls, ...(endpoint.database === undefined ? {} : { database: endpoint.database }) }
  const isExposed = url !== undefined && endpoint.password !== undefined
  const natMap = natMapOf(given.nat)
  const node = { host: address.host, port: address.port }
  if (given.sentinel !== undefined) {
    const ownPassword = REDIS_SENTINEL_PASSWORD ? { password: REDIS_SENTINEL_PASSWORD } : {}
    const sentinel = { nodes: [node], name: given.sentinel, ...tls, ...natMap, ...ownPassword }
    return { options: { sentinel, ...common }, isExposed }
  }
  if (given.nat !== undefined) {
    const { database: _, ...access } = common
    return { options: { cluster: { nodes: [node], ...natMap }, ...access }, isExposed }
  }
  const server = address.path === undefined ? node : { path: address.path }
  return { options: { ...server, ...common }, isExposed }
}

/** The options for a server that is a node of a cluster. */
export function clusterOptions(
  options: RedisStoreOptions,
  masters: readonly string[],
  tags?: number,
): RedisStoreOptions {
  const { host: _host, port: _port, path: _path, database: _database, ...access } = options
  const shared = tags === undefined ? {} : { tags }
  // The addresses of masters are those that they report.
  const cluster = options.cluster === undefined ? { nodes: masters } : options.cluster
  return { ...access, cluster: { ...cluster, ...shared } }
}

function natMapOf(pairs: readonly string[] | undefined): { natMap?: Record<string, string> } {
  if (pairs === undefined) {
    return {}
  }
  const entries = pairs.map((pair) => {
    const [reported = '', reachable = '', ...more] = pair.split('=')
    if (reported === '' || reachable === '' || more.length > 0) {
      throw usageError("--nat must be a pair of addresses, such as '10.0.0.1:6379=redis.example:7001'")
    }
    return [reported, reachable] as const
  })
  const complaint = (reported: string) => {
    return `--nat ${reported}=… is given twice: each reported address has one translation, so remove one`
  }
  return { natMap: fromUniqueEntries(entries, complaint) }
}

function tlsOf(given: EndpointOptions, isOn: boolean): Pick<RedisStoreOptions, 'tls'> {
  const { ca, cert, certKey, serverName } = given
  const all = {
    ...(ca === undefined ? {} : { ca: readFile('--ca', ca) }),
    ...(cert === undefined ? {} : { cert: readFile('--cert', cert) }),
    ...(certKey === undefined ? {} : { key: readFile('--cert-key', certKey) }),
    ...(serverName === undefined ? {} : { serverName }),
  }
  if (Object.keys(all).length === 0) {
    return isOn ? { tls: true } : {}
  }
  if (!isOn) {
    throw usageError('--ca, --cert, --cert-key and --server-name are for TLS: a URL that begins with rediss://')
  }
  return { tls: all }
}

/** Reads a file. An error does not quote its contents. */
export function readFile(option: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw environmentError(`${option}: ${JSON.stringify(path)} cannot be read (${code ?? 'unknown error'})`)
  }
}
