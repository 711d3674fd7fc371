/** Where a server is. */
export interface RedisNode {
  /** Its name or IP address. */
  readonly host: string
  /** Default: 6379; of sentinels 26379. */
  readonly port?: number
}

/** How TLS is spoken. Certificates are always verified; all of them are in PEM. */
export interface RedisTlsOptions {
  /** The certificates that are trusted, in place of those that Mozilla trusts, and Node with it. */
  readonly ca?: string | Uint8Array
  /** The client's certificate, and those between it and the one that the server trusts. Needs `key`. */
  readonly cert?: string | Uint8Array
  /** The key of `cert`. */
  readonly key?: string | Uint8Array
  /** The name that the server's certificate must be for. Default: the host. */
  readonly serverName?: string
}

/** Who connects. */
export interface RedisCredentials {
  /** Default: the server's default user. */
  readonly username?: string
  readonly password: string
}

/** Sentinels, and the master that they watch. */
export interface RedisSentinelOptions {
  /** The sentinels: `'host'`, `'host:port'` or objects. Those that do not answer are passed over. */
  readonly nodes: readonly (string | RedisNode)[]
  /** The name of the master, as the sentinels know it. */
  readonly name: string
  /** The user whom sentinels ask for, which need not be that of the master. */
  readonly username?: string
  /** The password that sentinels ask for. */
  readonly password?: string
  /** Whether and how sentinels speak TLS. Default: `false`. */
  readonly tls?: boolean | RedisTlsOptions
}

/** A Redis Cluster. */
export interface RedisClusterOptions {
  /**
   * Some of its nodes, which tell of the others: `'host'`, `'host:port'` or objects. Those that do not answer are
   * passed over.
   */
  readonly nodes: readonly (string | RedisNode)[]
  /**
   * How many hash tags the keys share, 1 to 16,384. By default each key has its own, so that keys are spread
   * evenly, and only calls on equal keys go together; with a few hundred tags many calls go together, which takes
   * less of Redis. What must be decided together, but has different keys, needs a tag of the limiter's or of the call's,
   * with or without this. To change it is to begin anew: keys get other names.
   */
  readonly tags?: number
}

/**
 * The options of a {@link RedisStore}. Exactly one of `url`, `host`, `path`, `sentinel` and `cluster` says where
 * Redis is.
 */
export interface RedisStoreOptions {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, or
   * `redis+unix:///path[?db=…&user=…&pass=…]`. What stands in it can also be said by the options below, which
   * then prevail.
   */
  readonly url?: string
  /** The server's name or IP address. */
  readonly host?: string
  /** The server's port, with `host`. Default: 6379. */
  readonly port?: number
  /** The path of a unix socket. */
  readonly path?: string
  /** Sentinels, which know the master. */
  readonly sentinel?: RedisSentinelOptions
  /** A cluster. `username`, `password`, `credentials` and `tls` are for all of its nodes. */
  readonly cluster?: RedisClusterOptions
  /** Who connects: a user of the server's ACL. Default: its default user. */
  readonly username?: string
  /** The user's password. */
  readonly password?: string
  /**
   * Tells who connects, in place of `username` and `password`: it is called before each attempt to connect, so
   * that a password can change while the process runs. If it fails or does not answer within `connectTimeoutMs`,
   * so does the attempt.
   */
  readonly credentials?: () => RedisCredentials | Promise<RedisCredentials>
  /** The number of the database. Default: 0. */
  readonly database?: number
  /** Whether and how to speak TLS. Default: `false`, with a `rediss` URL `true`. */
  readonly tls?: boolean | RedisTlsOptions
  /** How long one attempt to connect may take, in milliseconds. Default: 2000. */
  readonly connectTimeoutMs?: number
  /**
   * When a call that has no answer fails, in milliseconds from the call; if the event loop does not turn then, as soon as
   * it does. Default: 1000. A server that has been
   * away or silent for so long is taken to be down: until it is back, calls fail at once.
   */
  readonly commandTimeoutMs?: number
  /** How many calls may wait for an answer; one more is `OVERLOADED`. Default: 10,000. */
  readonly maxPending?: number
}
