import type { Decision } from '../api/decision.js'
import type { Permit } from '../api/permit.js'
import type { AnyCost, MiddlewareLimiter } from '../middleware/shared/options.js'

/** Its units can be settled where a refund is possible. */
type AnyPermit = Permit<string, string, true>

export type HeldToolPermit = Extract<AnyPermit, { readonly allowed: true }>

interface PermitCallOptions {
  readonly cost?: AnyCost
  readonly tier?: string
}

/** A limiter with a `concurrency` policy. */
export interface PermitLimiter extends MiddlewareLimiter<unknown, string, AnyCost> {
  acquire(key: unknown, options: object): Promise<AnyPermit>
}

/** A limiter with a `concurrency` policy as the middleware calls it, which keeps the permits of its decisions. */
export class Permits {
  readonly limiter: MiddlewareLimiter<unknown, string, AnyCost>
  readonly #held = new WeakMap<Decision, HeldToolPermit>()

  constructor(limiter: PermitLimiter) {
    const acquire = async (key: unknown, options: object): Promise<Decision> => {
      const permit = await limiter.acquire(key, options)
      if (permit.allowed) {
        this.#held.set(permit.decision, permit)
      }
      return permit.decision
    }
    this.limiter = {
      // An update replaces the policies.
      get policies() {
        return limiter.policies
      },
      get tiers() {
        return limiter.tiers ?? {}
      },
      take: (key: unknown, call?: number | PermitCallOptions) =>
        acquire(key, typeof call === 'object' ? call : { ...(call !== undefined && { cost: call }) }),
      wait: (key: unknown, { onTooLong, ...options }: PermitCallOptions & { readonly onTooLong: unknown }) =>
        acquire(key, options),
      refund: async (decision) => this.#held.get(decision)?.cancel(),
    }
  }

  of(decision: Decision): HeldToolPermit | undefined {
    return this.#held.get(decision)
  }
}
