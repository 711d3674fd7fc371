import { RedisServer, type RedisServerOptions } from './redis-server.js'
import { SlotMove } from './slot-move.js'
import { until } from './until.js'

const SLOTS = 16_384

/** How long a node may be silent while the cluster is formed. */
const FORMING_MS = 15_000

/** How long nodes that meet may take to agree, before they meet again. */
const MEETING_MS = 5_000

/** What a cluster is made of. */
export interface RedisClusterOptions extends RedisServerOptions {
  /** Default: 3, which is the fewest that can agree on a failure. */
  readonly masters?: number
  /** For each master. Default: 0. */
  readonly replicas?: number
  /** How long a node may be silent before it counts as failed, in milliseconds. Default: 1000. */
  readonly nodeTimeoutMs?: number
}

/** A node, by what the cluster calls it. */
interface Node {
  readonly server: RedisServer
  readonly id: string
}

/** A real Redis Cluster of one's own. It does not outlive this process. */
export class RedisCluster {
  readonly #nodes: readonly Node[]

  private constructor(nodes: readonly Node[]) {
    this.#nodes = nodes
  }

  /** Starts a cluster, and waits until all of its nodes agree that it is well. */
  static async start(options: RedisClusterOptions = {}): Promise<RedisCluster> {
    const { masters = 3, replicas = 0, nodeTimeoutMs = 1_000, ...shared } = options
    const config = [
      'cluster-enabled yes',
      `cluster-node-timeout ${nodeTimeoutMs}`,
      // A replica begins at once, and takes over however long it had no news.
      'repl-diskless-sync-delay 0',
      'cluster-replica-validity-factor 0',
      ...(shared.config ?? []),
    ]
    const count = masters * (1 + replicas)
    const starting = Array.from({ length: count }, () => RedisServer.start({ ...shared, config }))
    const started = await Promise.allSettled(starting)
    const servers = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    try {
      // The first that failed, if one did.
      await Promise.all(starting)
      const ids = await Promise.all(servers.map((server) => server.command<string>('CLUSTER', 'MYID')))
      const cluster = new RedisCluster(servers.map((server, index) => ({ server, id: ids[index] as string })))
      await cluster.#form(masters, nodeTimeoutMs)
      return cluster
    } catch (error) {
      await Promise.all(servers.map((server) => server.stop()))
      throw error
    }
  }

  /** All nodes, whatever has become of them. The first are those that were masters in the beginning. */
  get nodes(): readonly RedisServer[] {
    return this.#nodes.map(({ server }) => server)
  }

  /** The node that owns a slot, by what the nodes that answer say; they may disagree for a while. */
  async owner(slot: number): Promise<RedisServer> {
    const [port] = await this.#anyView((ranges) => ranges.find(({ from, to }) => from <= slot && slot <= to)?.ports)
    return this.#at(port)
  }

  /** Waits until a slot has another owner, and all that run agree. */
  async newOwner(slot: number, before: RedisServer): Promise<RedisServer> {
    const after = await until('a slot has another owner', async () => {
      const owner = await this.owner(slot)
      return owner === before ? undefined : owner
    })
    await this.agreed()
    return after
  }

  /** The replicas that follow the owner of a slot. */
  async replicas(slot: number): Promise<readonly RedisServer[]> {
    const ports = await this.#anyView((ranges) => ranges.find(({ from, to }) => from <= slot && slot <= to)?.ports)
    return ports.slice(1).map((port) => this.#at(port))
  }

  /** The slot of a key's name. */
  slotOf(name: string): Promise<number> {
    return this.#running()[0]?.server.command<number>('CLUSTER', 'KEYSLOT', name) ?? Promise.reject(this.#nobody())
  }

  /** Begins to move a slot to another node; what is moved, and when it has been, is the caller's. */
  async startMove(slot: number, to: RedisServer): Promise<SlotMove> {
    const source = this.#nodeOf(await this.owner(slot))
    const others = this.#running().filter(({ server }) => server !== source.server && server !== to)
    const bystanders = others.map(({ server }) => server)
    return SlotMove.start(slot, source, this.#nodeOf(to), bystanders)
  }

  /** Moves a slot with its keys to another node. */
  async moveSlot(slot: number, to: RedisServer): Promise<void> {
    const move = await this.startMove(slot, to)
    while ((await move.migrate(100)) > 0) {}
    await move.finish()
  }

  /** Waits until all nodes that run say that the cluster is well, and agree on who owns what. */
  async agreed(patienceMs?: number): Promise<void> {
    const agree = async () => {
      const views = await Promise.all(
        this.#running().map(async ({ server }) => {
          const info = await server.command<string>('CLUSTER', 'INFO')
          return info.includes('cluster_state:ok') ? JSON.stringify(await view(server)) : undefined
        }),
      )
      return views[0] !== undefined && views.every((one) => one === views[0])
    }
    await until('the cluster agrees', agree, patienceMs)
  }

  /** Ends all nodes. May be called again. */
  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((server) => server.stop()))
  }

  /** {@link stop}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #form(masters: number, nodeTimeoutMs: number): Promise<void> {
    // On a busy machine a node must not be taken for dead, and be replaced, before all is as it is to be.
    await this.#onAll('CONFIG', 'SET', 'cluster-node-timeout', FORMING_MS)
    const [owners, followers] = [this.#nodes.slice(0, masters), this.#nodes.slice(masters)]
    await Promise.all(
      owners.map(async ({ server }, index) => {
        const [from, to] = [index, index + 1].map((part) => Math.floor((part * SLOTS) / masters)) as [number, number]
        const slots = Array.from({ length: to - from }, (_, slot) => from + slot)
        // ADDSLOTSRANGE came with 7.0.
        await server.command('CLUSTER', 'ADDSLOTS', ...slots)
        await server.command('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
      }),
    )
    // On a busy machine a handshake may run out of time, and is then forgotten.
    await until('the nodes have met', async () => {
      await this.#meet()
      await this.agreed(MEETING_MS)
      return true
    })
    await Promise.all(followers.map(({ server }, index) => this.#follow(server, owners[index % masters] as Node)))
    await this.agreed()
    await this.#onAll('CONFIG', 'SET', 'cluster-node-timeout', nodeTimeoutMs)
  }

  async #onAll(...words: readonly (string | number)[]): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.command(...words)))
  }

  /** All meet all: hearsay takes seconds. */
  async #meet(): Promise<void> {
    await Promise.all(
      this.#nodes.flatMap(({ server: one }, index) =>
        this.#nodes.slice(index + 1).map(({ server }) => one.command('CLUSTER', 'MEET', '127.0.0.1', server.port)),
      ),
    )
  }

  async #follow(server: RedisServer, master: Node): Promise<void> {
    // It must have heard of its master first.
    await until('a replica follows', async () => (await server.command('CLUSTER', 'REPLICATE', master.id)) === 'OK')
    await until('a replica is linked', async () => (await server.info('master_link_status')) === 'up')
    await until('a replica is known', async () => {
      const ranges = await view(master.server)
      return ranges.some(({ ports }) => ports.slice(1).includes(server.port))
    })
  }

  /** What the first node says that has an answer. */
  async #anyView<T>(read: (ranges: readonly Range[]) => T | undefined): Promise<T> {
    for (const { server } of this.#running()) {
      const found = await view(server).then(read, () => undefined)
      if (found !== undefined) {
        return found
      }
    }
    throw this.#nobody()
  }

  #running(): readonly Node[] {
    return this.#nodes.filter(({ server }) => server.pid !== undefined && !server.isFrozen)
  }

  #nodeOf(server: RedisServer): Node {
    return this.#nodes.find((node) => node.server === server) as Node
  }

  #at(port: number | undefined): RedisServer {
    return this.#nodes.find(({ server }) => server.port === port)?.server as RedisServer
  }

  #nobody(): Error {
    return new Error('no node of the cluster knows')
  }
}

/** Who serves a range of slots: first its master's port, then those of the replicas. */
interface Range {
  readonly from: number
  readonly to: number
  readonly ports: readonly number[]
}

type Address = readonly [host: string, port: number]

type Served = readonly [from: number, to: number, master: Address, ...replicas: Address[]]

/** How a node sees the cluster, in an order of its own. */
async function view(server: RedisServer): Promise<readonly Range[]> {
  const served = await server.command<Served[]>('CLUSTER', 'SLOTS')
  return served
    .map(([from, to, [, master], ...replicas]) => {
      const ports = [master, ...replicas.map(([, port]) => port).sort((a, b) => a - b)]
      return { from, to, ports }
    })
    .sort((a, b) => a.from - b.from)
}
