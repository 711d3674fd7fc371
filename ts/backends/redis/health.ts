import { Events } from '../../platform/events.js'
import { timers } from '../../platform/timers.js'
import { scriptAdvisory } from './script-advisories.js'

/**
 * The events of a store, by name.
 *
 * @example
 * store.on('down', ({ reason }: StoreEvents['down']) => console.error(reason))
 */
export interface StoreEvents {
  /** Calls fail immediately until the store is up again. The event is emitted again if the reason changes. */
  readonly down: {
    /** The reason, as far as it is known. */
    readonly reason: string
  }
  /** The store is reachable, for the first time or again. */
  readonly up: {
    /** The store's address: `host:port`, or a path. */
    readonly address: string
    /** The store's version; empty if it does not report one. */
    readonly version: string
  }
  /**
   * A condition that works but should be corrected; `code` tells which (`docs/troubleshooting.md#events-of-a-store` has
   * the fixes):
   *
   * - `EVICTING`: the server's `maxmemory-policy` allows it to evict keys, which loses their counts. Set it to
   *   `noeviction`.
   * - `VULNERABLE_SERVER`: the server's version lacks fixes of its Lua engine. Reported once for each version.
   * - `CLUSTER_NODE`: the store was made for one server, and this is a node of a cluster: calls on keys of other nodes
   *   fail.
   * - `POLICIES_DIFFER`: another limiter uses a prefix of this store with other policies, or used it within the last 90
   *   minutes. Each pair is reported once.
   */
  readonly warning:
    | {
        readonly code: 'CLUSTER_NODE' | 'EVICTING' | 'VULNERABLE_SERVER'
        readonly message: string
      }
    | {
        readonly code: 'POLICIES_DIFFER'
        readonly message: string
        readonly prefix: string
        /** The policies of this store's limiters, such as `default: gcra limit=100 period=1m`. */
        readonly ours: string
        /** The policies of the other limiter. */
        readonly theirs: string
        /** Whether both count on the same states. Then each call is decided by its own limiter's numbers. */
        readonly sharesStates: boolean
      }
}

/**
 * The status of a store.
 *
 * @example
 * const isReady = ({ state }: StoreStatus): boolean => state === 'up'
 * isReady(store.status())
 */
export interface StoreStatus {
  /** `connecting` until the store is up or down for the first time. */
  readonly state: 'connecting' | 'up' | 'down' | 'closed'
  /** The time of the last change of state, in epoch milliseconds by this process's clock. */
  readonly since: number
  /** While down: the reason. */
  readonly reason?: string
  /** While up: the store's address. */
  readonly address?: string
  /** While up: the store's version; empty if it does not report one. */
  readonly version?: string
  /** The number of calls without an answer. */
  readonly pending: number
  /** The units that the leases of this store's limiters hold (see `LocalDecisions`). */
  readonly leases: {
    /** The number of keys. */
    readonly keys: number
    readonly units: number
  }
}

/** The part of a status that the engine reports. */
type StoreState = Omit<StoreStatus, 'pending' | 'leases'>

const MAX_STATUS_WAIT_MS = 100

export class Health {
  readonly events = new Events<StoreEvents>()
  /** The versions that have been reported as vulnerable. */
  readonly #reported = new Set<string>()
  #status: StoreState = { state: 'connecting', since: Date.now() }

  get status(): StoreState {
    return this.#status
  }

  /** The reason why the store is known to be down; `undefined` if it is not. */
  get down(): string | undefined {
    return this.#status.reason
  }

  /**
   * Waits until the engine has reported the state of a store that has answered. By a timer, because the channel
   * of the report does not keep the process alive.
   */
  async whenKnown(): Promise<void> {
    for (let time = 0; time < MAX_STATUS_WAIT_MS && this.#status.state === 'connecting'; time++) {
      await new Promise((resolve) => timers.setTimeout(resolve, 1))
    }
  }

  handleEvent(kind: string, values: readonly string[]): void {
    if (this.#status.state === 'closed') {
      return
    }
    const [first = '', second = ''] = values
    switch (kind) {
      case 'up': {
        const { state } = this.#status
        const up = { address: first, version: second }
        this.#setStatus({ state: 'up', ...up }, state === 'up')
        if (state !== 'up') {
          this.events.emit('up', up)
        }
        this.#checkVersion(second)
        return
      }
      case 'down':
        // During an outage only the reason changes.
        this.#setStatus({ state: 'down', reason: first }, this.#status.state === 'down')
        this.events.emit('down', { reason: first })
        return
      case 'evicting': {
        const message = `maxmemory-policy must be noeviction, got ${first}: a key that Redis evicts loses its count`
        this.events.emit('warning', { code: 'EVICTING', message })
        return
      }
      case 'cluster-node': {
        const message =
          'this server is a node of a Redis Cluster, and lacks the keys of other nodes: use cluster: { nodes }'
        this.events.emit('warning', { code: 'CLUSTER_NODE', message })
        return
      }
    }
  }

  close(): void {
    this.#setStatus({ state: 'closed' }, this.#status.state === 'closed')
  }

  #checkVersion(version: string): void {
    const message = scriptAdvisory(version)
    if (message !== undefined && !this.#reported.has(version)) {
      this.#reported.add(version)
      this.events.emit('warning', { code: 'VULNERABLE_SERVER', message })
    }
  }

  #setStatus(status: Omit<StoreState, 'since'>, isSame = false): void {
    this.#status = { ...status, since: isSame ? this.#status.since : Date.now() }
  }
}
