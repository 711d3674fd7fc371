import type { TakeOptions } from '../api/call-options.js'
import type { Allowed, Decision } from '../api/decision.js'
import type { AcquireOptions, Permit, PermitSignal } from '../api/permit.js'
import { settleRepeatedly } from '../api/repeated-settlement.js'
import type { ReserveOptions, Settlement } from '../api/reservation.js'
import type { WaitingLimiter } from '../api/wait.js'
import { type Duration, MAX_WAIT_MS } from '../input/duration.js'
import type { WaitingTime } from '../platform/waiting-time.js'
import { isRate } from '../policies/window.js'
import type { ClientLimiter } from './options.js'
import { type PeekRefusal, peekRefusalOf, refusalOf, type TurnRefusal } from './refusal.js'
import { type TurnCost, type TurnNeed, turnOptions } from './turn-need.js'

/** The right of one call to start. */
export interface Turn {
  readonly decision: Allowed
  readonly signal: PermitSignal | undefined
  /** Whether it came later than an answer of the store. */
  readonly isDelayed: boolean
  end(): void
  /** Ends it, and charges the units that were used, by default those that it has taken; `undefined`: it cannot. */
  readonly settle: ((used: TurnCost | undefined) => Promise<Settlement<string>>) | undefined
  /** Gives the units of a turn back that no call uses, as far as possible. */
  giveBack(): void
}

export interface TurnRequest extends TurnNeed {
  readonly key: unknown
  readonly maxWaitMs: number
  readonly signal: PermitSignal
}

/** Asks a limiter for a turn. */
export type AskForTurn = (request: TurnRequest) => Promise<Turn | TurnRefusal>

/** A turn that comes later than this after its request has waited. */
const DELAYED_MS = 20

/** The longest time that a call without a permit has to end, so that surplus units come back. */
const RESERVED_FOR: Duration = '1h'

type AnyLimiter = ClientLimiter<unknown, string, string, TurnCost>

/** A permit or a reservation of a limiter with or without meters. */
interface Settleable {
  commit(used: TurnCost | undefined): Promise<Settlement<string>>
  cancel(): Promise<Settlement<string>>
}

type Options<O> = Omit<O, 'cost'> & { readonly cost: TurnCost; readonly tier?: string | undefined }

/** The methods of limiters that can, by their policies, give turns. */
interface Taking {
  take(key: unknown, options: Options<TakeOptions>): Promise<Decision>
}

interface Acquiring {
  acquire(key: unknown, options: Options<AcquireOptions>): Promise<Permit & Partial<Settleable>>
}

interface Reserving {
  reserve(
    key: unknown,
    units: TurnCost,
    options: ReserveOptions,
  ): Promise<
    (Settleable & { readonly allowed: true; decision: Allowed }) | { readonly allowed: false; decision: Decision }
  >
}

/**
 * Calls get their turns by permits under `concurrency`, by slots under rates, and by `take` under windows. If turns are
 * settled, those without a permit are reservations.
 */
export function turnsOf(limiter: AnyLimiter, time: WaitingTime, areSettled: boolean): AskForTurn {
  const policies = Object.values(limiter.policies)
  const giveBack = (decision: Decision) => {
    // Units that cannot be given back drain or expire as usual.
    limiter.refund(decision).catch(() => {})
  }
  if (policies.some(({ algorithm }) => algorithm === 'concurrency')) {
    return turnsByPermits(limiter as AnyLimiter & Acquiring, peekRefusalOf(limiter), time, areSettled)
  }
  if (areSettled) {
    return turnsByReservations(limiter as AnyLimiter & Reserving)
  }
  if (policies.every(isRate)) {
    return turnsBySlots(limiter as AnyLimiter & WaitingLimiter, giveBack)
  }
  const taking = limiter as AnyLimiter & Taking
  return async (request) => {
    const decision = await taking.take(request.key, turnOptions(request))
    return decision.allowed ? turnOf(decision, false, () => giveBack(decision)) : refusalOf(decision)
  }
}

/** How a turn was settled. */
interface SettledTurn {
  readonly units: TurnCost | undefined
  readonly settlement: Settlement<string> | undefined
  readonly error: unknown
}

/**
 * Ends a turn, and charges the units that `used` returns. If this fails, those stay charged that the turn has taken.
 * Resolves after the first try.
 */
export function settleTurn(
  turn: Turn,
  time: WaitingTime,
  used: () => TurnCost | undefined,
  onEnd: (settled: SettledTurn) => void,
): Promise<unknown> {
  const called = (async () => used())()
  const settle = async (): Promise<SettledTurn> => {
    let units: TurnCost | undefined
    try {
      units = await called
      return { units, settlement: await turn.settle?.(units), error: undefined }
    } catch (error) {
      return { units, settlement: undefined, error }
    }
  }
  return settleRepeatedly(time, settle, (settled) => {
    if (settled.settlement === undefined) {
      turn.end()
    }
    onEnd(settled)
  })
}

function turnsByPermits(limiter: Acquiring, peek: PeekRefusal, time: WaitingTime, areSettled: boolean): AskForTurn {
  let shortestMs = Number.POSITIVE_INFINITY
  return async (request) => {
    const { key, maxWaitMs, signal } = request
    const askedAt = time.now()
    const permit = await limiter.acquire(key, {
      ...turnOptions(request),
      maxWait: Math.min(maxWaitMs, MAX_WAIT_MS),
      signal,
    })
    if (!permit.allowed) {
      const { decision } = permit
      if (decision.source === 'none') {
        return refusalOf(decision)
      }
      // Its time may be that until permits expire.
      return { decision, pauseMs: decision.status === 'blocked' ? (await peek(key, request)).pauseMs : 0 }
    }
    const tookMs = time.now() - askedAt
    shortestMs = Math.min(shortestMs, tookMs)
    // A permit that cannot be released expires.
    const release = () => void permit.release().catch(() => {})
    return {
      decision: permit.decision,
      signal: permit.signal,
      isDelayed: tookMs > shortestMs + DELAYED_MS,
      end: release,
      settle: areSettled ? (used) => (permit as Settleable).commit(used) : undefined,
      giveBack: areSettled ? () => void (permit as Settleable).cancel().catch(() => {}) : release,
    }
  }
}

function turnsByReservations(limiter: Reserving): AskForTurn {
  return async ({ key, cost, tier }) => {
    const options: ReserveOptions = { ttl: RESERVED_FOR, ...(tier !== undefined && { tier }) }
    const reservation = await limiter.reserve(key, cost, options)
    if (!reservation.allowed) {
      return refusalOf(reservation.decision)
    }
    const giveBack = () => void reservation.cancel().catch(() => {})
    const turn = turnOf(reservation.decision, false, giveBack)
    return { ...turn, settle: (used) => reservation.commit(used) }
  }
}

function turnsBySlots(limiter: AnyLimiter & WaitingLimiter, giveBack: (decision: Decision) => void): AskForTurn {
  return async (request) => {
    const { key, maxWaitMs, signal } = request
    const decision = await limiter.wait(key, {
      ...turnOptions(request),
      maxWait: Math.min(maxWaitMs, MAX_WAIT_MS),
      onTooLong: 'resolve',
      signal,
    })
    if (!decision.allowed) {
      return refusalOf(decision)
    }
    const isDelayed = decision.waitedMs > DELAYED_MS
    if (isDelayed) {
      // Another process may have blocked the key during the wait.
      const latest = await limiter.peek(key, turnOptions(request))
      if (latest.status === 'blocked') {
        giveBack(decision)
        return refusalOf(latest)
      }
    }
    return turnOf(decision, isDelayed, () => giveBack(decision))
  }
}

function turnOf(decision: Allowed, isDelayed: boolean, giveBack: () => void): Turn {
  return { decision, signal: undefined, isDelayed, end: () => {}, settle: undefined, giveBack }
}
