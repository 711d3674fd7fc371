import type { Duration } from '../../input/duration.js'

/** The address of a server. */
export interface RedisNode {
  /** The server's name or IP address. */
  readonly host: string
  /** Default: 6379; for sentinels 26379. */
  readonly port?: number
}

/** TLS options. Certificates are always verified. All of them are in PEM. */
export interface RedisTlsOptions {
  /** Trusted certificates. Default: those that Mozilla trusts, as in Node. */
  readonly ca?: string | Uint8Array
  /** The client's certificate and its intermediate certificates. Requires `key`. */
  readonly cert?: string | Uint8Array
  /** The private key of `cert`. */
  readonly key?: string | Uint8Array
  /**
   * The name that the server's certificate must have. Default: the host. In a cluster it is the name
   * of the `nodes` that you give. A node that the cluster reports by a host name has a certificate
   * for that name, and a node with an IP address has one for `serverName` or for the address.
   */
  readonly serverName?: string
}

/** The login of a connection. */
export interface RedisCredentials {
  /** Default: the server's default user. */
  readonly username?: string
  readonly password: string
}

/** Sentinels and the name of their master. */
export interface RedisSentinelOptions {
  /** The sentinels: `'host'`, `'host:port'` or objects. Unreachable sentinels are skipped. */
  readonly nodes: readonly (string | RedisNode)[]
  /** The name of the master in the sentinels' configuration. */
  readonly name: string
  /** The user for the sentinels. The master may need another one. */
  readonly username?: string
  /** The password for the sentinels. */
  readonly password?: string
  /** TLS for the sentinels. Default: `false`. */
  readonly tls?: boolean | RedisTlsOptions
  /**
   * The addresses to connect to in the place of those that the sentinels report, for servers behind a network
   * address translation: `{ '10.0.0.1:6379': 'redis.example:7001' }`. An address that is missing is
   * used as it is reported.
   */
  readonly natMap?: Readonly<Record<string, string | RedisNode>>
}

/** The options of a Redis Cluster. */
export interface RedisClusterOptions {
  /**
   * Some nodes of the cluster, from which the others are discovered: `'host'`, `'host:port'` or
   * objects. Unreachable nodes are skipped.
   */
  readonly nodes: readonly (string | RedisNode)[]
  /**
   * The number of hash tags that all keys share, 1 to 16,384. By default each key has its own tag:
   * keys are spread evenly. A few hundred tags save work of this process, and of servers that refuse
   * scripts with keys of several slots. Different keys that are decided
   * together need a `tag` of the limiter or of the call, with or without this option. A change of
   * this number renames all keys, so they start in their initial state.
   */
  readonly tags?: number
  /**
   * The addresses to connect to in the place of those that the nodes report, for servers behind a network
   * address translation: `{ '10.0.0.1:6379': 'redis.example:7001' }`. An address that is missing is
   * used as it is reported.
   */
  readonly natMap?: Readonly<Record<string, string | RedisNode>>
}

/**
 * The options of a {@link RedisStore}. Exactly one of `url`, `host`, `path`, `sentinel` and
 * `cluster` locates Redis.
 */
export interface RedisStoreOptions {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, or
   * `redis+unix:///path[?db=…&user=…&pass=…]`; also `valkey://` and `valkeys://`. The parameters `db`,
   * `family` and `protocol` of other clients are accepted; `family` and `protocol` change nothing. The
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
  readonly sentinel?: RedisSentinelOptions
  /** A cluster. `username`, `password`, `credentials` and `tls` apply to all of its nodes. */
  readonly cluster?: RedisClusterOptions
  /** A user of the server's ACL. Default: the server's default user. */
  readonly username?: string
  /** The user's password. */
  readonly password?: string
  /**
   * Returns the login, instead of `username` and `password`. It is called before each attempt to
   * connect, so a password can change while the process runs. If it fails or does not answer within
   * `connectTimeoutMs`, so does the attempt.
   */
  readonly credentials?: () => RedisCredentials | Promise<RedisCredentials>
  /** The number of the database. Default: 0. */
  readonly database?: number
  /** TLS for the connection. Default: `true` with a `rediss` URL, otherwise `false`. */
  readonly tls?: boolean | RedisTlsOptions
  /** The timeout of one attempt to connect: milliseconds, or a duration such as `'5s'`. Default: 2000. */
  readonly connectTimeoutMs?: Duration
  /**
   * The timeout of a call, from the call on: milliseconds, or a duration such as `'2s'`. If the event
   * loop is blocked at that time, the call fails as soon as it runs again. Default: 1000. A server that has been
   * unreachable or silent for this long is taken to be down: calls fail immediately until it is up
   * again.
   */
  readonly commandTimeoutMs?: Duration
  /**
   * The interval of health checks while there are no calls: milliseconds, or a duration such as `'15s'`,
   * from 1 s on. Default: 15,000. A check is two commands. Several servers, sentinels or nodes of a
   * cluster share the interval, so that an idle process sends at most 10 commands a minute by default.
   * While calls are made, a server is checked every 250 ms.
   */
  readonly idleCheckMs?: Duration
  /** The most calls without an answer; one more is `OVERLOADED`. Default: 10,000. */
  readonly maxPending?: number
  /**
   * Sends a script of its own for each key, pipelined. Required behind a proxy that sends a script to the
   * server of its first key (twemproxy, Envoy): otherwise keys are counted on several servers. A call
   * on different keys then needs a `tag` of the limiter or of the call, and a proxy that routes by
   * hash tags; without a tag it fails with `STORE_ERROR`. Default: `false`. Not for `cluster`, where
   * the store itself finds the server of each key.
   */
  readonly oneKeyPerScript?: boolean
}
