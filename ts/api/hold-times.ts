import type { Allowed, Decision, PolicyNumbers } from './decision.js'

const WEIGHT = 1 / 8

/** A moving mean of the times for which calls of this process hold permits. */
export class HoldTimes {
  #meanMs: number | undefined

  /** `undefined` before the first release. */
  get meanMs(): number | undefined {
    return this.#meanMs
  }

  add(heldMs: number): void {
    this.#meanMs = this.#meanMs === undefined ? heldMs : this.#meanMs + (heldMs - this.#meanMs) * WEIGHT
  }

  /** Changes the times of a refusal to those after which permits are probably released, if that is earlier. */
  estimateIn(refusal: Exclude<Decision, Allowed>, isConcurrency: (limit: string) => boolean): void {
    if (this.#meanMs === undefined || refusal.status !== 'refused') {
      return
    }
    const expectedMs = Math.max(1, Math.ceil(this.#meanMs))
    const policies: { [limit: string]: PolicyNumbers } = { ...refusal.policies }
    for (const [limit, numbers] of Object.entries(policies)) {
      if (isConcurrency(limit)) {
        const retryAfterMs = Math.min(numbers.retryAfterMs ?? 0, expectedMs)
        policies[limit] = { ...numbers, retryAfterMs, nextAfterMs: Math.min(numbers.nextAfterMs, expectedMs) }
      }
    }
    const [policy, numbers] = longestIn(policies)
    const { limit, capacity, used, remaining } = numbers
    const retryAfterMs = numbers.retryAfterMs as number
    const nextAfterMs = Math.max(...Object.values(policies).map((own) => own.nextAfterMs))
    const retryAt = Math.min(refusal.retryAt, Math.ceil(refusal.at + retryAfterMs))
    const times = { retryAfterMs, nextAfterMs, retryAt }
    // Not a copy: the metadata of decisions is found by their identity.
    Object.assign(refusal, { policy, limit, capacity, used, remaining, policies, ...times })
  }
}

/** The limit that refuses for the longest time; the first among equals. */
function longestIn(policies: Decision['policies']): readonly [string, PolicyNumbers] {
  const all = Object.entries(policies)
  return all.reduce((one, other) => ((other[1].retryAfterMs ?? 0) > (one[1].retryAfterMs ?? 0) ? other : one))
}
