import type { Decision } from '../api/decision.js'
import type { Policy } from '../policies/policy.js'
import type { ClientLimiter } from './options.js'
import { type TurnCost, type TurnNeed, turnOptions } from './turn-need.js'

/** A turn that the limiter does not give now. */
export interface TurnRefusal {
  readonly decision: Decision
  /** The milliseconds until no block and no rate refuses it. `acquire` waits for permits, so they count as free. */
  readonly pauseMs: number
}

/** Asks whether, and for how long, the calls of a key have to pause. */
export type PeekRefusal = (key: unknown, need: TurnNeed) => Promise<TurnRefusal>

interface Named {
  readonly [name: string]: Policy
}

export function refusalOf(decision: Decision): TurnRefusal {
  return { decision, pauseMs: decision.retryAfterMs ?? 0 }
}

export function peekRefusalOf(limiter: ClientLimiter<unknown, string, string, TurnCost>): PeekRefusal {
  return async (key, { cost, tier }) => {
    const policies = (limiter.tiers as { readonly [tier: string]: Named })[tier ?? ''] ?? limiter.policies
    const isPermit = (name: string) => policies[name]?.algorithm === 'concurrency'
    if (Object.keys(policies).every(isPermit)) {
      // Without units only a block refuses.
      return refusalOf(await limiter.peek(key, turnOptions({ cost: noUnits(cost), tier })))
    }
    const decision = await limiter.peek(key, turnOptions({ cost, tier }))
    // Under `concurrency` the time is that until permits expire, which are usually released before.
    const times = Object.entries(decision.policies).map(([name, own]) => (isPermit(name) ? 0 : (own.retryAfterMs ?? 0)))
    return { decision, pauseMs: Math.max(...times) }
  }
}

function noUnits(cost: TurnCost): TurnCost {
  return typeof cost === 'number' ? 0 : Object.fromEntries(Object.keys(cost).map((meter) => [meter, 0]))
}
