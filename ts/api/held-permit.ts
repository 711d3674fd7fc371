import type { LimiterBackend } from '../backends/limiter-backend.js'
import type { CallId, FirstCall, NewHold, OperationResult } from '../backends/operation.js'
import type { Units } from '../backends/units.js'
import type { Keys } from '../input/keys.js'
import type { Allowed } from './decision.js'
import { TollgateError } from './error.js'
import type { ReservationHandle } from './reservation.js'

export interface PermitRequest {
  readonly id: number
  /** Its keys under the policies for concurrency. */
  readonly keys: Keys
  readonly units: Units
  /** Its life from a renewal on, in milliseconds. */
  readonly expiresMs: number
  /**
   * The time at which the store was asked for it, by the clock of the pool; for a permit of the embedded
   * share the time at which the share decided.
   */
  readonly since: number
  readonly currentBackend: () => LimiterBackend
  /** The hold of its units under the other policies; `undefined` if they cannot be settled. */
  readonly hold: PermitHold | undefined
  readonly callId: CallId | undefined
  /** The call that this one repeats. */
  readonly first?: FirstCall | undefined
}

/** Units that are settled when the permit ends. */
export interface PermitHold extends NewHold {
  /** The keys under all policies. */
  readonly keys: Keys
  readonly tier: string | undefined
  /** Whether it lives as long as the permit. A reservation ends at its own time instead, and the permit with it. */
  readonly lastsAsPermit: boolean
}

/** A permit in the store, which this process renews until it is released. */
export interface StoredPermit extends PermitRequest {
  readonly decision: Allowed
}

/** When the permit was granted, or got again by a repeated call: epoch milliseconds by the deciding clock. */
export function grantedAt({ first, decision }: StoredPermit): number {
  return first === undefined ? decision.at : first.atUs / 1_000
}

const LAST_PART = 0.9

/** Whether it is too late to use a permit that was asked for, or renewed, at `since`. */
export function isAboutToExpire(
  { expiresMs, since }: Pick<PermitRequest, 'expiresMs' | 'since'>,
  now: number,
): boolean {
  return now - since >= expiresMs * LAST_PART
}

export class HeldPermit {
  readonly stored: StoredPermit
  /** Settles its units under the other policies, and ends it. */
  reservation: ReservationHandle | undefined
  /** Whether it was held when it ended; `undefined` until then. */
  wasHeld: boolean | undefined
  readonly #now: () => number
  /** The time at which the last successful renewal was sent. */
  #renewedAt: number
  #isRenewing = false
  #isLost = false
  #controller: AbortController | undefined

  /** @param now - Milliseconds of a clock that counts the suspension of the machine. */
  constructor(stored: StoredPermit, renewedAt: number, now: () => number) {
    this.stored = stored
    this.#renewedAt = renewedAt
    this.#now = now
  }

  passedOn(): HeldPermit {
    return new HeldPermit(this.stored, this.#renewedAt, this.#now)
  }

  get isLost(): boolean {
    return this.#isLost
  }

  /** Whether its reservation has ended. The time of its decision is not before that of its request. */
  get isOver(): boolean {
    const { hold, since } = this.stored
    if (this.reservation === undefined || hold === undefined || hold.lastsAsPermit) {
      return false
    }
    return this.#now() >= since + this.reservation.expiresAt - grantedAt(this.stored)
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#isLost) {
        this.#controller.abort(lostError())
      }
    }
    return this.#controller.signal
  }

  /** Renews the permit if it is time, and aborts the signal if it is about to be lost. */
  check(): void {
    const now = this.#now()
    const { expiresMs } = this.stored
    if (this.isOver || isAboutToExpire({ expiresMs, since: this.#renewedAt }, now)) {
      this.lose()
    } else if (!this.#isRenewing && now - this.#renewedAt >= expiresMs / 3) {
      void this.#renew()
    }
  }

  lose(): void {
    if (!this.#isLost) {
      this.#isLost = true
      this.#controller?.abort(lostError())
    }
  }

  /** Ends the permit. Resolves to the milliseconds for which the store held it; to `undefined` if it had expired. */
  async release(): Promise<number | undefined> {
    const { units, decision } = await this.#send('release')
    return units > 0 ? Math.max(0, decision.at - grantedAt(this.stored)) : undefined
  }

  async #renew(): Promise<void> {
    const sentAt = this.#now()
    this.#isRenewing = true
    try {
      if (await this.#renewInStore()) {
        this.#renewedAt = sentAt
      } else {
        this.lose()
      }
    } catch {
      // The next check tries again, until the permit is about to be lost.
    } finally {
      this.#isRenewing = false
    }
  }

  async #renewInStore(): Promise<boolean> {
    const { hold } = this.stored
    return this.reservation === undefined || hold === undefined
      ? (await this.#send('renewPermit')).units > 0
      : this.reservation.keepPermit(hold.lastsAsPermit ? hold.durationUs : 0)
  }

  async #send(kind: 'release' | 'renewPermit'): Promise<OperationResult> {
    const { id, keys, decision, currentBackend } = this.stored
    return currentBackend().execute(keys, { kind, source: decision.source, permit: id })
  }
}

function lostError(): TollgateError {
  return new TollgateError('PERMIT_LOST', 'the permit could not be renewed in time: another caller may get its units')
}
