/** One policy's numbers in a decision. */
export interface PolicyNumbers {
  /** The largest cost that a call can ever have: the limit, the capacity or the burst. */
  readonly limit: number
  /** The largest cost that would be admitted now, after this call. */
  readonly remaining: number
  /**
   * Whole milliseconds, rounded up, after which the same cost would be admitted if nobody else
   * came; one millisecond earlier it would not. 0 if it was admitted, `null` if it never can be.
   *
   * It is so while the numbers, the block and the counts of the key stay as they are, and the clock does not step. If the
   * key has numbers of its own (`override`), it is no longer than until they end; the limiter's decide then.
   */
  readonly retryAfterMs: number | null
  /** Whole milliseconds, rounded up, until the key is as if never used. */
  readonly resetAfterMs: number
}

/** What every decision tells. */
export interface DecisionBase<N extends string = string> extends PolicyNumbers {
  /** The name of the policy that the numbers speak of; a single policy is `'default'`. */
  readonly policy: N
  /** Each policy's numbers, by name. */
  readonly policies: { readonly [Name in N]: PolicyNumbers }
  /** The time of the decision by the deciding clock: epoch milliseconds, with microseconds. */
  readonly at: number
  /**
   * Who decided: the store, or because it failed what `onStoreFailure` says: `'fallback'`, the embedded store with a
   * share of the numbers; `'none'`, nobody.
   *
   * With `'none'` nothing was counted: `policy` is the first limit, `remaining` and `resetAfterMs` are 0 for all of them,
   * `retryAfterMs` of a refused call is 1000 (when to ask again, and never exact), and `at` is by this process's clock.
   */
  readonly source: 'store' | 'fallback' | 'none'
}

/** The call may proceed; its cost has been charged. */
export interface Allowed<N extends string = string> extends DecisionBase<N> {
  readonly allowed: true
  /** `'allowed-last'`: it took the last unit. */
  readonly status: 'allowed' | 'allowed-last'
  readonly retryAfterMs: 0
}

/** The call may not proceed now; nothing has been charged. */
export interface Refused<N extends string = string> extends DecisionBase<N> {
  readonly allowed: false
  readonly status: 'refused'
  readonly retryAfterMs: number
}

/** The key is blocked: no call may proceed until the block ends. Nothing has been charged. */
export interface Blocked<N extends string = string> extends DecisionBase<N> {
  readonly allowed: false
  readonly status: 'blocked'
  /** Until the block has ended and the cost would fit. */
  readonly retryAfterMs: number
}

/** A call of this cost can never proceed: it is above the limit. Nothing has been charged. */
export interface Impossible<N extends string = string> extends DecisionBase<N> {
  readonly allowed: false
  readonly status: 'impossible'
  readonly retryAfterMs: null
}

/**
 * The answer to a call: a plain object. `allowed` and `status` tell its kind, and narrow its type.
 *
 * @example
 * const decision = await limiter.take('user:42')
 * if (!decision.allowed) console.log(decision.policy, decision.retryAfterMs)
 */
export type Decision<N extends string = string> = Allowed<N> | Refused<N> | Blocked<N> | Impossible<N>

/**
 * Where a change of a key was made; truthy if it holds somewhere.
 *
 * - `'store'`: in the store, for all processes.
 * - `'fallback'`: the store failed, and the embedded share of `onStoreFailure` made it. It holds in this process, as long
 *   as the share decides. The store knows nothing of it when it is back.
 * - `false`: the store failed, and nobody made it.
 *
 * If the store did not answer in time, the change may have reached it all the same.
 */
export type Applied = 'store' | 'fallback' | false
