import type { Duration } from '../../input/duration.js'

/** The login of a connection. Without `username` it is that of the server's default user. @inline */
type Login = { readonly username?: string; readonly password: string }

/**
 * The options of a {@link RedisStore}. Exactly one of `url`, `host`, `path`, `sentinel` and
 * `cluster` locates Redis.
 *
 * @example
 * const options: RedisStoreOptions = { sentinel: { nodes: ['sentinel-1', 'sentinel-2:26379'], name: 'master' } }
 * const store = new RedisStore(options)
 */
export interface RedisStoreOptions {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, or
   * `redis+unix:///path[?db=…&user=…&pass=…]`; also `valkey://` and `valkeys://`. The
   * options below take precedence over parts of the URL.
   */
  readonly url?: string
  /** The server's name or IP address. */
  readonly host?: string
  /** The server's port, with `host`. Default: 6379. */
  readonly port?: number
  /** The path of a unix socket. */
  readonly path?: string
  /** Sentinels that locate the master. */
  readonly sentinel?: {
    /** The sentinels: `'host'`, `'host:port'` or objects; port 26379 by default. Unreachable sentinels are skipped. */
    readonly nodes: readonly (string | { readonly host: string; readonly port?: number })[]
    /** The name of the master in the sentinels' configuration. */
    readonly name: string
    /** The user for the sentinels. The master may need another one. */
    readonly username?: string
    /** The password for the sentinels. */
    readonly password?: string
    /** TLS for the sentinels. Default: `false`. */
    readonly tls?: RedisStoreOptions['tls']
    /**
     * The addresses to connect to in the place of those that the sentinels report, for servers behind a network
     * address translation: `{ '10.0.0.1:6379': 'redis.example:7001' }`.
     */
    readonly natMap?: { readonly [address: string]: string | { readonly host: string; readonly port?: number } }
  }
  /** A cluster. `username`, `password`, `credentials` and `tls` apply to all of its nodes. */
  readonly cluster?: {
    /** Some nodes, from which the others are discovered: `'host'`, `'host:port'` or objects; port 6379 by default. */
    readonly nodes: readonly (string | { readonly host: string; readonly port?: number })[]
    /**
     * The number of hash tags that all keys share, 1 to 16,384. By default each key has its own tag. A few hundred
     * tags save work of this process, and of servers that refuse scripts with keys of several slots. A change of
     * this number renames all keys, so they start in their initial state.
     */
    readonly tags?: number
    /** The addresses to connect to in place of those that nodes report: `{ '10.0.0.1:6379': 'redis.example:7001' }`. */
    readonly natMap?: { readonly [address: string]: string | { readonly host: string; readonly port?: number } }
  }
  /** A user of the server's ACL. Default: the server's default user. */
  readonly username?: string
  /** The user's password. */
  readonly password?: string
  /**
   * Returns the login, instead of `username` and `password`, before each attempt to connect. If it does not
   * answer within `connectTimeout`, the attempt fails.
   */
  readonly credentials?: () => Login | Promise<Login>
  /** The number of the database. Default: 0. */
  readonly database?: number
  /**
   * TLS for the connection. Certificates are always verified. All of them are in PEM. Default: `true` with a
   * `rediss` URL, otherwise `false`.
   */
  readonly tls?:
    | boolean
    | {
        /** Trusted certificates. Default: those that Mozilla trusts, as in Node. */
        readonly ca?: string | Uint8Array
        /** The client's certificate and its intermediate certificates. Requires `key`. */
        readonly cert?: string | Uint8Array
        /** The private key of `cert`. */
        readonly key?: string | Uint8Array
        /**
         * The name that the server's certificate must have. Default: the host. In a cluster it is the name
         * of the `nodes` that you give; see `docs/redis.md#connecting` for other nodes.
         */
        readonly serverName?: string
      }
  /** The timeout of one attempt to connect: milliseconds, or a duration such as `'5s'`. Default: 2000. */
  readonly connectTimeout?: Duration
  /**
   * The timeout of a call: milliseconds, or a duration such as `'2s'`. Default: 1000. A server that has been
   * unreachable or silent for this long is down: calls fail immediately until it is up again.
   */
  readonly commandTimeout?: Duration
  /**
   * The interval of health checks while there are no calls: milliseconds, or a duration such as `'15s'`,
   * from 1 s on. Default: 15,000. Several servers share the interval. While calls are made, a server is checked
   * every 250 ms.
   */
  readonly idleCheck?: Duration
  /** The most calls without an answer; one more is `OVERLOADED`. Default: 10,000. */
  readonly maxPending?: number
  /**
   * Sends a script of its own for each key. Required behind a proxy that sends a script to the
   * server of its first key (twemproxy, Envoy). A call on different keys then needs a `tag`, and fails with
   * `STORE_ERROR` without one. Default: `false`. Not for `cluster`.
   */
  readonly oneKeyPerScript?: boolean
}
