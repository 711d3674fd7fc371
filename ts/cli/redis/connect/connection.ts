import { RateLimiter } from '../../../api/rate-limiter.js'
import { RedisStore } from '../../../backends/redis/redis-store.js'
import { isPolicyLike } from '../../../policies/policy.js'
import type { Policies } from '../../../policies/policy-set.js'
import { usageError } from '../../failure.js'
import { escapeControls, type Terminal } from '../../terminal.js'
import type { LimiterConfig } from '../policies.js'
import { clusterOptions, redisEndpointOf } from './endpoint.js'
import { type MasterNodes, RedisKeyReader } from './key-reader.js'
import type { RedisOptions } from './options.js'

export type CommandLimiter = RateLimiter

/** A connection to Redis that can read keys and create limiters. */
export class Connection {
  #store: RedisStore | undefined

  private constructor(
    readonly reader: RedisKeyReader,
    readonly masters: MasterNodes,
    private readonly options: ConstructorParameters<typeof RedisStore>[0],
  ) {}

  static async open(url: string | undefined, given: RedisOptions, terminal: Terminal): Promise<Connection> {
    const { options, isExposed } = redisEndpointOf(url, given, terminal)
    if (isExposed) {
      const better = 'REDIS_URL or --url-file hides it'
      terminal.stderr.write(`tollgate: note: this machine's list of processes shows the URL's password; ${better}\n`)
    }
    const reader = new RedisKeyReader(options, given.timeout)
    try {
      const masters = await reader.masters()
      if (given.clusterTags !== undefined && !masters.isCluster) {
        throw usageError(
          `--cluster-tags is for a cluster, which ${escapeControls(masters.names[0] ?? '')} is not: leave it out`,
        )
      }
      const times = { connectTimeout: given.timeout, commandTimeout: given.timeout }
      const endpoint = masters.isCluster ? clusterOptions(options, masters.names, given.clusterTags) : options
      return new Connection(reader, masters, { ...endpoint, ...times })
    } catch (error) {
      reader.close()
      throw error
    }
  }

  get name(): string {
    const [first = '', ...more] = this.masters.names.map(escapeControls)
    const others = more.length === 0 ? '' : ` and ${more.length} more`
    return this.masters.isCluster ? `cluster of ${first}${others}` : first
  }

  limiter({ policies }: LimiterConfig, prefix: string, tag: string | undefined): CommandLimiter {
    if (this.#store === undefined) {
      this.#store = new RedisStore(this.options)
      // Only limiters of programs show which policies are in use.
      this.#store.batcher.policyRegistry?.stopPublishing()
    }
    const options = { store: this.#store, prefix, ...(tag === undefined ? {} : { tag }) }
    return new RateLimiter(withoutMeters(policies) as Policies, options) as unknown as CommandLimiter
  }

  async close(): Promise<void> {
    this.reader.close()
    await this.#store?.close()
  }
}

export async function withRedis<T>(
  url: string | undefined,
  given: RedisOptions,
  terminal: Terminal,
  use: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await Connection.open(url, given, terminal)
  try {
    return await use(connection)
  } finally {
    await connection.close()
  }
}

/** Policies without their meters, which states do not have: a command shows units, whatever they are. */
function withoutMeters(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) {
    return value
  }
  const options = Object.entries(value).filter(([name]) => !isPolicyLike(value) || !METER_OPTIONS.includes(name))
  return Object.fromEntries(options.map(([name, one]) => [name, withoutMeters(one)]))
}

const METER_OPTIONS: readonly string[] = ['meter', 'defaultCost']
