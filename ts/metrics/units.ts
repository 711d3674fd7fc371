import type { Decision } from '../api/decision.js'
import { TollgateError } from '../api/error.js'
import { costsOf, mostByMeter } from '../api/metered-units.js'
import type { Permit } from '../api/permit.js'
import type { RateLimiter } from '../api/rate-limiter.js'
import type { Reservation } from '../api/reservation.js'
import type { WaitedOrRefused } from '../api/wait.js'
import { type MeterSet, meterSetOf } from '../policies/meter.js'

type Described = Pick<RateLimiter, 'policies'> & {
  readonly tiers?: { readonly [tier: string]: RateLimiter['policies'] }
}

/** The methods that take units. */
interface TakingMethods {
  take(...args: unknown[]): Promise<Decision>
  takeSync(...args: unknown[]): Decision
  takeMany(...args: unknown[]): Promise<Decision[]>
  reserve(...args: unknown[]): Promise<Reservation>
  wait(...args: unknown[]): Promise<WaitedOrRefused>
  acquire(...args: unknown[]): Promise<Permit>
}

/**
 * Calls `record` with the units by meter of each admitted call, if policies of the limiter have meters. Otherwise the
 * methods stay as they are: they are called often.
 */
export function recordUnits(
  methods: TakingMethods,
  limiter: Described,
  record: (meter: string, units: number) => void,
): void {
  if (metersOf(limiter, undefined) === undefined) {
    return
  }
  const recordCall = ({ allowed, source }: Decision, cost: unknown, tier: unknown): void => {
    const meters = metersOf(limiter, tier)
    // Without a store nothing is charged.
    if (allowed && source !== 'none' && meters !== undefined) {
      for (const [meter, units] of Object.entries(mostByMeter(meters, costsOf(meters, cost)))) {
        record(meter, units)
      }
    }
  }
  const { take, takeSync, takeMany, reserve, wait, acquire } = methods
  const optionsOf = (options: unknown) => (options ?? {}) as { readonly cost?: unknown; readonly tier?: unknown }
  const recordDecision = <D extends Decision>(decision: D, options: unknown): D => {
    const { cost, tier } = optionsOf(options)
    recordCall(decision, cost, tier)
    return decision
  }
  methods.take = async (...args) => recordDecision(await take(...args), args[1])
  methods.takeSync = (...args) => recordDecision(takeSync(...args), args[1])
  methods.wait = async (...args) => recordDecision(await wait(...args), args[1])
  methods.takeMany = async (...args) => {
    const [, costs] = args
    const recordEach = (result: Decision | TollgateError, index: number) => {
      if (!(result instanceof Error)) {
        recordDecision(result, Array.isArray(costs) ? { cost: costs[index] as unknown } : costs)
      }
    }
    try {
      const decisions = await takeMany(...args)
      decisions.forEach(recordEach)
      return decisions
    } catch (error) {
      const results = TollgateError.is(error) ? error.results : undefined
      results?.forEach(recordEach)
      throw error
    }
  }
  methods.reserve = async (...args) => {
    const reservation = await reserve(...args)
    recordCall(reservation.decision, args[1], optionsOf(args[2]).tier)
    return reservation
  }
  methods.acquire = async (...args) => {
    const permit = await acquire(...args)
    recordDecision(permit.decision, args[1])
    return permit
  }
}

/** The meters of a tier. An update may replace the policies. */
function metersOf({ policies, tiers = {} }: Described, tier: unknown): MeterSet | undefined {
  return meterSetOf(Object.entries(typeof tier === 'string' ? (tiers[tier] ?? policies) : policies))
}
