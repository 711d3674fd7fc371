import { setTimeout as sleep } from 'node:timers/promises'
import { Events } from '../../platform/events.js'

/** The store has been away or silent for `commandTimeoutMs`: until it is back, calls fail at once. */
export interface StoreDown {
  /** Why, as far as is known. */
  readonly reason: string
}

/** The store is there, for the first time or again. */
export interface StoreUp {
  /** Where it is: `host:port`, or a path. */
  readonly address: string
  /** Its version; empty if it does not tell. */
  readonly version: string
}

/** Something that works, and should not remain as it is; told by its `code`. */
export type StoreWarning = EvictingWarning | PoliciesWarning

/**
 * The server's `maxmemory-policy` lets it drop keys before their time, and a key that is dropped starts anew. Set it to
 * `noeviction`.
 */
export interface EvictingWarning {
  readonly code: 'EVICTING'
  readonly message: string
}

/**
 * Another limiter uses a prefix of this store with other policies, or has within 90 minutes. Each pair is told once. A
 * limiter is known of from the first answer a second after its first call that takes units, if its user may write.
 */
export interface PoliciesWarning {
  readonly code: 'POLICIES_DIFFER'
  readonly message: string
  readonly prefix: string
  /** The policies of this store's limiters, such as `default: gcra burst=100 limit=100 period=1m`. */
  readonly ours: string
  /** Those of the other. */
  readonly theirs: string
  /**
   * Whether both count on the same states, under a policy of the same name, algorithm and layout: then each call is
   * decided by its own limiter's numbers. Otherwise each counts by itself.
   */
  readonly sharesStates: boolean
}

/** What can be heard of a store, by name. */
export interface StoreEvents {
  readonly down: StoreDown
  readonly up: StoreUp
  readonly warning: StoreWarning
}

/** How a store is. */
export interface StoreStatus {
  /** `connecting` until the store is up or down for the first time. */
  readonly state: 'connecting' | 'up' | 'down' | 'closed'
  /** Since when, in epoch milliseconds by this process's clock. */
  readonly since: number
  /** While it is down: why. */
  readonly reason?: string
  /** While it is up: where it is. */
  readonly address?: string
  /** While it is up: its version; empty if it does not tell. */
  readonly version?: string
  /** How many calls wait for an answer. */
  readonly pending: number
}

/** No longer than this is waited for what the engine tells. */
const LONGEST_MS = 100

/** How a store is, as the engine tells it. */
export class Health {
  readonly events = new Events<StoreEvents>()
  #status: Omit<StoreStatus, 'pending'> = { state: 'connecting', since: Date.now() }

  get status(): Omit<StoreStatus, 'pending'> {
    return this.#status
  }

  /** Why the store is known to be down; `undefined` if it is not. */
  get down(): string | undefined {
    return this.#status.reason
  }

  /**
   * Waits until the engine has told how a store is that has answered: it has been told before the answer, on another
   * way. By a timer, as what is on that way does not keep the process alive.
   */
  async known(): Promise<void> {
    for (let time = 0; time < LONGEST_MS && this.#status.state === 'connecting'; time++) {
      await sleep(1)
    }
  }

  /** Takes what the engine tells. */
  heard(kind: string, words: readonly string[]): void {
    if (this.#status.state === 'closed') {
      return
    }
    const [first = '', second = ''] = words
    switch (kind) {
      case 'up': {
        const { state } = this.#status
        const up = { address: first, version: second }
        this.#become({ state: 'up', ...up }, state === 'up')
        if (state !== 'up') {
          this.events.emit('up', up)
        }
        return
      }
      case 'down':
        this.#become({ state: 'down', reason: first })
        this.events.emit('down', { reason: first })
        return
      case 'evicting': {
        const rule = 'must be noeviction: a key that Redis drops before its time starts anew'
        this.events.emit('warning', { code: 'EVICTING', message: `maxmemory-policy ${rule}, it is ${first}` })
        return
      }
    }
  }

  /** The store has been closed. */
  close(): void {
    this.#become({ state: 'closed' }, this.#status.state === 'closed')
  }

  #become(status: Omit<StoreStatus, 'pending' | 'since'>, isSame = false): void {
    this.#status = { ...status, since: isSame ? this.#status.since : Date.now() }
  }
}
