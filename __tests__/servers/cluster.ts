import { RedisServer, type RedisServerOptions } from './redis-server.js'
import { SlotMove } from './slot-move.js'
import { until } from './until.js'

const SLOTS = 16_384

/** The silence after which a node counts as failed while the cluster is formed. */
const FORMING_MS = 15_000

/** The time for nodes to agree after CLUSTER MEET, before it is repeated. */
const AGREEMENT_TIMEOUT_MS = 5_000

/** The composition of a cluster. */
export interface RedisClusterOptions extends RedisServerOptions {
  /** Default: 3, the minimum that can agree on a failure. */
  readonly masters?: number
  /** For each master. Default: 0. */
  readonly replicas?: number
  /** The silence after which a node counts as failed, in milliseconds. Default: 1000. */
  readonly nodeTimeoutMs?: number
}

/** A node, as the cluster lists it. */
interface Node {
  readonly server: RedisServer
  readonly id: string
}

/** A private real Redis Cluster. It does not outlive this process. */
export class RedisCluster {
  readonly #nodes: readonly Node[]

  private constructor(nodes: readonly Node[]) {
    this.#nodes = nodes
  }

  /** Starts a cluster, and waits until all of its nodes report a healthy state. */
  static async start(options: RedisClusterOptions = {}): Promise<RedisCluster> {
    const { masters = 3, replicas = 0, nodeTimeoutMs = 1_000, ...shared } = options
    const config = [
      'cluster-enabled yes',
      `cluster-node-timeout ${nodeTimeoutMs}`,
      // A replica starts immediately, and takes over even if its data are old.
      'repl-diskless-sync-delay 0',
      'cluster-replica-validity-factor 0',
      ...(shared.config ?? []),
    ]
    const count = masters * (1 + replicas)
    const starting = Array.from({ length: count }, () => RedisServer.start({ ...shared, config }))
    const started = await Promise.allSettled(starting)
    const servers = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    try {
      // The first failure, if any.
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

  /** All nodes, whatever their state. The first are the original masters. */
  get nodes(): readonly RedisServer[] {
    return this.#nodes.map(({ server }) => server)
  }

  /** The owner of a slot, according to the nodes that answer. They may disagree for a while. */
  async owner(slot: number): Promise<RedisServer> {
    const [port] = await this.#anyView((ranges) => ranges.find(({ from, to }) => from <= slot && slot <= to)?.ports)
    return this.#at(port)
  }

  /** Waits until a slot has another owner, and all running nodes agree. */
  async newOwner(slot: number, before: RedisServer): Promise<RedisServer> {
    const after = await until('a slot has another owner', async () => {
      const owner = await this.owner(slot)
      return owner === before ? undefined : owner
    })
    await this.agreed()
    return after
  }

  /** The replicas of a slot's owner. */
  async replicas(slot: number): Promise<readonly RedisServer[]> {
    const ports = await this.#anyView((ranges) => ranges.find(({ from, to }) => from <= slot && slot <= to)?.ports)
    return ports.slice(1).map((port) => this.#at(port))
  }

  /** The slot of a key's name. */
  slotOf(name: string): Promise<number> {
    return this.#running()[0]?.server.command<number>('CLUSTER', 'KEYSLOT', name) ?? Promise.reject(this.#noAnswer())
  }

  /** Starts to move a slot to another node. The caller moves the keys and ends the move. */
  async startMove(slot: number, to: RedisServer): Promise<SlotMove> {
    const source = this.#nodeOf(await this.owner(slot))
    const others = this.#running().filter(({ server }) => server !== source.server && server !== to)
    const roles = await Promise.all(others.map(({ server }) => server.command<[string]>('ROLE')))
    // Replicas follow their masters: they accept no change of slots.
    const bystanders = others.filter((_, index) => roles[index]?.[0] === 'master').map(({ server }) => server)
    return SlotMove.start(slot, source, this.#nodeOf(to), bystanders)
  }

  /** Moves a slot with its keys to another node. */
  async moveSlot(slot: number, to: RedisServer): Promise<void> {
    const move = await this.startMove(slot, to)
    while ((await move.migrate(100)) > 0) {}
    await move.finish()
  }

  /** Waits until all running nodes report a healthy cluster, and agree on the slots' owners. */
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

  /** Stops all nodes. May be called again. */
  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((server) => server.stop()))
  }

  /** {@link stop}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #form(masters: number, nodeTimeoutMs: number): Promise<void> {
    // On a busy machine a node must not count as failed, and be replaced, before the cluster is
    // complete.
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
    // On a busy machine a handshake may time out, and is then forgotten.
    await until('the nodes have met', async () => {
      await this.#meet()
      await this.agreed(AGREEMENT_TIMEOUT_MS)
      return true
    })
    await Promise.all(followers.map(({ server }, index) => this.#follow(server, owners[index % masters] as Node)))
    await this.agreed()
    await this.#onAll('CONFIG', 'SET', 'cluster-node-timeout', nodeTimeoutMs)
  }

  async #onAll(...words: readonly (string | number)[]): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.command(...words)))
  }

  /** Each node meets each other: gossip takes seconds. */
  async #meet(): Promise<void> {
    await Promise.all(
      this.#nodes.flatMap(({ server: one }, index) =>
        this.#nodes.slice(index + 1).map(({ server }) => one.command('CLUSTER', 'MEET', '127.0.0.1', server.port)),
      ),
    )
  }

  async #follow(server: RedisServer, master: Node): Promise<void> {
    // The replica must have learned of its master first.
    await until('a replica follows', async () => (await server.command('CLUSTER', 'REPLICATE', master.id)) === 'OK')
    await until('a replica is linked', async () => (await server.info('master_link_status')) === 'up')
    await until('a replica is known', async () => {
      const ranges = await view(master.server)
      return ranges.some(({ ports }) => ports.slice(1).includes(server.port))
    })
  }

  /** The result of the first node that answers. */
  async #anyView<T>(read: (ranges: readonly SlotRange[]) => T | undefined): Promise<T> {
    for (const { server } of this.#running()) {
      const found = await view(server).then(read, () => undefined)
      if (found !== undefined) {
        return found
      }
    }
    throw this.#noAnswer()
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

  #noAnswer(): Error {
    return new Error('no node of the cluster knows')
  }
}

/** The servers of a range of slots: first the master's port, then those of the replicas. */
interface SlotRange {
  readonly from: number
  readonly to: number
  readonly ports: readonly number[]
}

type Address = readonly [host: string, port: number]

type SlotRow = readonly [from: number, to: number, master: Address, ...replicas: Address[]]

/** A node's view of the cluster, in a canonical order. */
async function view(server: RedisServer): Promise<readonly SlotRange[]> {
  const rows = await server.command<SlotRow[]>('CLUSTER', 'SLOTS')
  return rows
    .map(([from, to, [, master], ...replicas]) => {
      const ports = [master, ...replicas.map(([, port]) => port).sort((a, b) => a - b)]
      return { from, to, ports }
    })
    .sort((a, b) => a.from - b.from)
}
