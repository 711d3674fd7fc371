import { readFileSync } from 'node:fs'
import type { RedisStoreOptions } from '../../../backends/redis/options.js'
import { placeOf } from '../../../backends/redis/url.js'
import { failedOutside, wrongUsage } from '../../failure.js'
import type { Terminal } from '../../terminal.js'

/** The options of commands that say where Redis is, and how it is reached. */
export interface PlaceOptions {
  readonly urlFile?: string
  readonly sentinel?: string
  readonly clusterTags?: number
  readonly ca?: string
  readonly cert?: string
  readonly certKey?: string
  readonly serverName?: string
}

/** Where Redis is. */
export interface RedisPlace {
  /** As a store takes it; of a cluster as the one node that is known yet. */
  readonly options: RedisStoreOptions
  /** Whether somebody else on this machine can read a password in the list of processes. */
  readonly isExposed: boolean
}

/**
 * Reads where Redis is: the URL of the command line, or that of a file or of `REDIS_URL`, which no list of processes
 * shows. No message holds anything of it.
 */
export function redisPlaceOf(url: string | undefined, given: PlaceOptions, { env }: Pick<Terminal, 'env'>): RedisPlace {
  const { REDIS_URL, REDIS_USERNAME, REDIS_PASSWORD, REDIS_SENTINEL_PASSWORD } = env
  if (url !== undefined && given.urlFile !== undefined) {
    throw wrongUsage('the URL and --url-file exclude each other')
  }
  const where = url !== undefined ? 'the URL' : given.urlFile !== undefined ? '--url-file: the URL' : 'REDIS_URL'
  const text = url ?? (given.urlFile === undefined ? REDIS_URL : fileOf('--url-file', given.urlFile).trim())
  if (text === undefined || text === '') {
    throw wrongUsage('where is Redis? Give its URL: as an argument, in REDIS_URL, or in a file that --url-file names')
  }
  const place = placeOf(where, text)
  const { address } = place
  const password = place.password ?? (REDIS_PASSWORD || undefined)
  const username = place.username ?? (REDIS_USERNAME || undefined)
  const login = {
    ...(username === undefined || password === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  }
  const tls = tlsOf(given, place.tls === true)
  const common = { ...login, ...tls, ...(place.database === undefined ? {} : { database: place.database }) }
  const isExposed = url !== undefined && place.password !== undefined
  if (given.sentinel !== undefined) {
    const own = REDIS_SENTINEL_PASSWORD || undefined
    const nodes = [{ host: address.host, port: address.port }]
    const sentinel = { nodes, name: given.sentinel, ...tls, ...(own === undefined ? {} : { password: own }) }
    return { options: { sentinel, ...common }, isExposed }
  }
  const at = address.path === undefined ? { host: address.host, port: address.port } : { path: address.path }
  return { options: { ...at, ...common }, isExposed }
}

/** The same for a server that has turned out to be a node of a cluster. */
export function ofCluster(options: RedisStoreOptions, masters: readonly string[], tags?: number): RedisStoreOptions {
  const { host: _host, port: _port, path: _path, database: _database, ...access } = options
  return { ...access, cluster: { nodes: masters, ...(tags === undefined ? {} : { tags }) } }
}

function tlsOf(given: PlaceOptions, isOn: boolean): Pick<RedisStoreOptions, 'tls'> {
  const { ca, cert, certKey, serverName } = given
  const all = {
    ...(ca === undefined ? {} : { ca: fileOf('--ca', ca) }),
    ...(cert === undefined ? {} : { cert: fileOf('--cert', cert) }),
    ...(certKey === undefined ? {} : { key: fileOf('--cert-key', certKey) }),
    ...(serverName === undefined ? {} : { serverName }),
  }
  if (Object.keys(all).length === 0) {
    return isOn ? { tls: true } : {}
  }
  if (!isOn) {
    throw wrongUsage('--ca, --cert, --cert-key and --server-name are for TLS: a URL that begins with rediss://')
  }
  return { tls: all }
}

/** A file's text; what cannot be read is told without what is in it. */
export function fileOf(option: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw failedOutside(`${option}: ${JSON.stringify(path)} cannot be read (${code ?? 'unknown error'})`)
  }
}
