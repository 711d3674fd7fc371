import type { Credentials } from './command.js'
import { RedisServer } from './redis-server.js'
import { until } from './until.js'

/** The composition of a group, and its time limits. */
export interface SentinelGroupOptions {
  /** Default: 1. */
  readonly replicas?: number
  /** Default: 3, of which two must agree. */
  readonly sentinels?: number
  /** The master's name at the sentinels. Default: `'main'`. */
  readonly name?: string
  /** The silence after which a master counts as down, in milliseconds. Default: 500. */
  readonly downAfterMs?: number
  /** The time limit of a failover before another is tried, in milliseconds. Default: 2000. */
  readonly failoverTimeoutMs?: number
  /** The password of the servers, for clients, replicas and sentinels. */
  readonly password?: string
  /** The password of the sentinels, for clients and each other. */
  readonly sentinelPassword?: string
  /** Additional lines of the servers' configuration. */
  readonly config?: readonly string[]
}

/**
 * A real master with replicas, and sentinels that monitor them. It does not outlive this process.
 */
export class SentinelGroup {
  private constructor(
    readonly name: string,
    /** The original master, then the replicas. */
    readonly servers: readonly RedisServer[],
    readonly sentinels: readonly RedisServer[],
  ) {}

  /** Starts a group, and waits until all nodes know each other and the replicas follow. */
  static async start(options: SentinelGroupOptions = {}): Promise<SentinelGroup> {
    const { name = 'main', replicas = 1, sentinels = 3 } = options
    const started: RedisServer[] = []
    try {
      const master = await RedisServer.start(serverOptions(options))
      started.push(master)
      for (let replica = 0; replica < replicas; replica++) {
        started.push(await RedisServer.start(serverOptions(options, master)))
      }
      const watching = started.slice()
      for (let sentinel = 0; sentinel < sentinels; sentinel++) {
        started.push(await RedisServer.start(sentinelOptions(options, name, master, Math.floor(sentinels / 2) + 1)))
      }
      const group = new SentinelGroup(name, watching, started.slice(watching.length))
      await group.agreed()
      return group
    } catch (error) {
      await Promise.all(started.map((server) => server.stop()))
      throw error
    }
  }

  /** The master according to most of the sentinels that answer. */
  async master(): Promise<RedisServer> {
    const answers = this.#watching().map((sentinel) =>
      sentinel.command<readonly [string, string]>('SENTINEL', 'get-master-addr-by-name', this.name),
    )
    const ports = (await Promise.all(answers)).map(([, port]) => Number(port)).sort((a, b) => a - b)
    // The majority's answer is in the middle of the sorted list.
    const port = ports[Math.floor(ports.length / 2)]
    return this.servers.find((server) => server.port === port) as RedisServer
  }

  /** Waits until the sentinels report another master, and it accepts writes. */
  newMaster(before: RedisServer): Promise<RedisServer> {
    return until('a new master is elected', async () => {
      const master = await this.master()
      const isNew = master !== before && (await role(master)) === 'master'
      return isNew ? master : undefined
    })
  }

  /**
   * Waits until all sentinels know each other, the master and its replicas, and the replicas follow
   * it.
   */
  async agreed(): Promise<void> {
    const servers = this.servers.filter((server) => server.pid !== undefined)
    await until('the sentinels agree', async () => {
      const states = this.#watching().map(async (sentinel) => {
        const fields = await sentinel.command<string[]>('SENTINEL', 'MASTER', this.name)
        const field = (name: string) => fields[fields.indexOf(name) + 1]
        const others = [field('num-slaves'), field('num-other-sentinels')].map(Number)
        return `${field('flags')} ${others}` === `master ${[servers.length - 1, this.sentinels.length - 1]}`
      })
      const master = await this.master()
      const online = (await master.command<string>('INFO', 'replication')).match(/state=online/g) ?? []
      return (await Promise.all(states)).every(Boolean) && online.length === servers.length - 1
    })
  }

  /** Stops all. May be called again. */
  async stop(): Promise<void> {
    await Promise.all([...this.sentinels, ...this.servers].map((server) => server.stop()))
  }

  /** {@link stop}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #watching(): readonly RedisServer[] {
    return this.sentinels.filter((sentinel) => sentinel.pid !== undefined && !sentinel.isFrozen)
  }
}

async function role(server: RedisServer): Promise<string> {
  const [role] = await server.command<[string]>('ROLE')
  return role
}

function serverOptions({ password, config = [] }: SentinelGroupOptions, master?: RedisServer) {
  const lines = [
    // A replica starts immediately.
    'repl-diskless-sync-delay 0',
    ...(master === undefined ? [] : [`replicaof 127.0.0.1 ${master.port}`]),
    ...(password === undefined ? [] : [`requirepass ${password}`, `masterauth ${password}`]),
  ]
  return { config: [...lines, ...config], credentials: credentials(password) }
}

function sentinelOptions(options: SentinelGroupOptions, name: string, master: RedisServer, quorum: number) {
  const { downAfterMs = 500, failoverTimeoutMs = 2_000, password, sentinelPassword } = options
  const config = [
    `sentinel monitor ${name} 127.0.0.1 ${master.port} ${quorum}`,
    `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
    `sentinel failover-timeout ${name} ${failoverTimeoutMs}`,
    ...(password === undefined ? [] : [`sentinel auth-pass ${name} ${password}`]),
    ...(sentinelPassword === undefined ? [] : [`requirepass ${sentinelPassword}`]),
    ...(sentinelPassword === undefined ? [] : [`sentinel sentinel-pass ${sentinelPassword}`]),
  ]
  return { isSentinel: true, config, credentials: credentials(sentinelPassword) }
}

function credentials(password: string | undefined): Credentials {
  return password === undefined ? {} : { password }
}
