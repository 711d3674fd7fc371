import { RateLimiter } from '../../../api/rate-limiter.js'
import { RedisStore } from '../../../backends/redis/redis-store.js'
import { wrongUsage } from '../../failure.js'
import { printable, type Terminal } from '../../terminal.js'
import type { Enforced } from '../policies.js'
import { ofCluster, redisPlaceOf } from './endpoint.js'
import type { CommonOptions } from './options.js'
import { type Masters, Reader } from './reader.js'

/** A limiter on any policies, as the command line asks it. */
export type AnyLimiter = RateLimiter<string, string, object>

/** A Redis that can be read, and asked by limiters. */
export class Connection {
  #store: RedisStore | undefined

  private constructor(
    readonly reader: Reader,
    readonly masters: Masters,
    private readonly options: ConstructorParameters<typeof RedisStore>[0],
  ) {}

  /** Connects; fails if there is nobody. */
  static async open(url: string | undefined, given: CommonOptions, terminal: Terminal): Promise<Connection> {
    const { options, isExposed } = redisPlaceOf(url, given, terminal)
    if (isExposed) {
      const better = 'REDIS_URL or --url-file keep it to yourself'
      terminal.stderr.write(`tollgate: note: this machine's list of processes shows the URL's password; ${better}\n`)
    }
    const reader = new Reader(options, given.timeout)
    try {
      const masters = await reader.masters()
      if (given.clusterTags !== undefined && !masters.isCluster) {
        throw wrongUsage(
          `--cluster-tags is for a cluster, which ${printable(masters.names[0] ?? '')} is not: leave it out`,
        )
      }
      const times = { connectTimeoutMs: given.timeout, commandTimeoutMs: given.timeout }
      const place = masters.isCluster ? ofCluster(options, masters.names, given.clusterTags) : options
      return new Connection(reader, masters, { ...place, ...times })
    } catch (error) {
      reader.close()
      throw error
    }
  }

  /** Where it is, for those who read it. */
  get name(): string {
    const [first = '', ...more] = this.masters.names.map(printable)
    const others = more.length === 0 ? '' : ` and ${more.length} more`
    return this.masters.isCluster ? `cluster of ${first}${others}` : first
  }

  /** The limiter whose keys these are. */
  limiter({ policies }: Enforced, prefix: string, tag: string | undefined): AnyLimiter {
    this.#store ??= new RedisStore(this.options)
    const options = { store: this.#store, prefix, ...(tag === undefined ? {} : { tag }) }
    return new RateLimiter(policies, options) as unknown as AnyLimiter
  }

  async close(): Promise<void> {
    this.reader.close()
    await this.#store?.close()
  }
}

/** Runs what a command does with Redis, and closes it. */
export async function withRedis<T>(
  url: string | undefined,
  given: CommonOptions,
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
