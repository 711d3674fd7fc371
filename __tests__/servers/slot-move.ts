import type { RedisServer } from './redis-server.js'

/** How long one key may take to go. */
const MIGRATE_MS = 5_000

/** One end of a move. */
interface End {
  readonly server: RedisServer
  readonly id: string
}

/**
 * A slot on its way from one node of a cluster to another: its keys go one by one, those that are not there any more
 * are asked for at the other end (ASK), and commands on several keys of which only some have gone must be tried again.
 */
export class SlotMove {
  private constructor(
    readonly slot: number,
    readonly from: End,
    readonly to: End,
    readonly bystanders: readonly RedisServer[],
  ) {}

  /** @internal See `RedisCluster.startMove`. */
  static async start(slot: number, from: End, to: End, bystanders: readonly RedisServer[]): Promise<SlotMove> {
    // In this order no key is asked for where nobody expects it.
    await to.server.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
    await from.server.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
    return new SlotMove(slot, from, to, bystanders)
  }

  /** The keys that have not gone yet, or some of them. */
  keys(most: number): Promise<string[]> {
    return this.from.server.command('CLUSTER', 'GETKEYSINSLOT', this.slot, most)
  }

  /** Moves at most so many keys, and tells how many went. */
  async migrate(most: number): Promise<number> {
    const keys = await this.keys(most)
    for (const key of keys) {
      await this.migrateKey(key)
    }
    return keys.length
  }

  /** Moves one key. */
  async migrateKey(key: string): Promise<void> {
    await this.from.server.command('MIGRATE', '127.0.0.1', this.to.server.port, key, 0, MIGRATE_MS)
  }

  /** Tells all nodes who owns the slot now. */
  async finish(): Promise<void> {
    for (const server of [this.to.server, this.from.server, ...this.bystanders]) {
      await server.command('CLUSTER', 'SETSLOT', this.slot, 'NODE', this.to.id)
    }
  }
}
