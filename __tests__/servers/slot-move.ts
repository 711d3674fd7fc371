import type { RedisServer } from './redis-server.js'

/** The time limit for moving one key. */
const MIGRATE_MS = 5_000

/** One end of a move. */
interface MoveEnd {
  readonly server: RedisServer
  readonly id: string
}

/**
 * A slot that moves between two nodes of a cluster: its keys move one by one, the source redirects
 * missing ones to the target (ASK), and commands on several keys, some of which have moved, must be
 * retried.
 */
export class SlotMove {
  private constructor(
    readonly slot: number,
    readonly from: MoveEnd,
    readonly to: MoveEnd,
    readonly bystanders: readonly RedisServer[],
  ) {}

  /** @internal See `RedisCluster.startMove`. */
  static async start(slot: number, from: MoveEnd, to: MoveEnd, bystanders: readonly RedisServer[]): Promise<SlotMove> {
    // In this order no key is requested from a node that does not expect it.
    await to.server.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
    await from.server.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
    return new SlotMove(slot, from, to, bystanders)
  }

  /** The keys that have not moved yet, or some of them. */
  keys(most: number): Promise<string[]> {
    return this.from.server.command('CLUSTER', 'GETKEYSINSLOT', this.slot, most)
  }

  /** Moves at most `max` keys, and returns the number that moved. */
  async migrate(max: number): Promise<number> {
    const keys = await this.keys(max)
    for (const key of keys) {
      await this.migrateKey(key)
    }
    return keys.length
  }

  /** Moves one key. */
  async migrateKey(key: string): Promise<void> {
    await this.from.server.command('MIGRATE', '127.0.0.1', this.to.server.port, key, 0, MIGRATE_MS)
  }

  /** Announces the slot's new owner to all nodes. */
  async finish(): Promise<void> {
    for (const server of [this.to.server, this.from.server, ...this.bystanders]) {
      await server.command('CLUSTER', 'SETSLOT', this.slot, 'NODE', this.to.id)
    }
  }
}
