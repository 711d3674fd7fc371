import type { TakeOptions } from '../api/call-options.js'
import type { Allowed, Decision } from '../api/decision.js'
import type { AcquireOptions, Permit, PermitSignal } from '../api/permit.js'
import type { WaitingLimiter } from '../api/wait.js'
import { MAX_WAIT_MS } from '../input/duration.js'
import type { WaitingTime } from '../platform/waiting-time.js'
import { isRate } from '../policies/window.js'
import type { ClientLimiter } from './options.js'
import { type TurnCost, type TurnNeed, turnOptions } from './turn-need.js'

/** The right of one call to start. */
export interface Turn {
  readonly decision: Allowed
  readonly signal: PermitSignal | undefined
  /** Whether it came later than an answer of the store. */
  readonly isDelayed: boolean
  end(): void
  /** Gives the units of a turn back that no call uses, as far as possible. */
  giveBack(): void
}

export interface TurnRequest extends TurnNeed {
  readonly key: unknown
  readonly maxWaitMs: number
  readonly signal: PermitSignal
}

/** Asks a limiter for a turn. Resolves to a decision if it is refused. */
export type AskForTurn = (request: TurnRequest) => Promise<Turn | Decision>

/** A turn that comes later than this after its request has waited. */
const DELAYED_MS = 20

type AnyLimiter = ClientLimiter<unknown, string, string, TurnCost>

type Options<O> = Omit<O, 'cost'> & { readonly cost: TurnCost; readonly tier?: string | undefined }

/** The methods of limiters that can, by their policies, give turns. */
interface Taking {
  take(key: unknown, options: Options<TakeOptions>): Promise<Decision>
}

interface Acquiring {
  acquire(key: unknown, options: Options<AcquireOptions>): Promise<Permit>
}

/** Calls get their turns by permits under `concurrency`, by slots under rates, and by `take` under windows. */
export function turnsOf(limiter: AnyLimiter, time: WaitingTime): AskForTurn {
  const policies = Object.values(limiter.policies)
  const giveBack = (decision: Decision) => {
    // Units that cannot be given back drain or expire as usual.
    limiter.refund(decision).catch(() => {})
  }
  if (policies.some(({ algorithm }) => algorithm === 'concurrency')) {
    return turnsByPermits(limiter as AnyLimiter & Acquiring, time)
  }
  if (policies.every(isRate)) {
    return turnsBySlots(limiter as AnyLimiter & WaitingLimiter, giveBack)
  }
  const taking = limiter as AnyLimiter & Taking
  return async (request) => {
    const decision = await taking.take(request.key, turnOptions(request))
    return decision.allowed ? turnOf(decision, false, () => giveBack(decision)) : decision
  }
}

function turnsByPermits(limiter: Acquiring, time: WaitingTime): AskForTurn {
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
      return permit.decision
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
      giveBack: release,
    }
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
      return decision
    }
    const isDelayed = decision.waitedMs > DELAYED_MS
    if (isDelayed) {
      // Another process may have blocked the key during the wait.
      const latest = await limiter.peek(key, turnOptions(request))
      if (latest.status === 'blocked') {
        giveBack(decision)
        return latest
      }
    }
    return turnOf(decision, isDelayed, () => giveBack(decision))
  }
}

function turnOf(decision: Allowed, isDelayed: boolean, giveBack: () => void): Turn {
  return { decision, signal: undefined, isDelayed, end: () => {}, giveBack }
}
