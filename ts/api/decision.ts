/**
 * One policy's numbers in a decision.
 *
 * @example
 * const { policies } = await limiter.take('user:42')
 * const numbers: PolicyNumbers = policies.default
 */
export interface PolicyNumbers {
  /**
   * The main number of the policy, as it was written, or of the override: the `limit` of `gcra` and of windows, the
   * `capacity` of buckets.
   */
  readonly limit: number
  /** The largest cost that a call can ever have: the `limit`, the `burst`, or the `capacity` and its `debt`. */
  readonly capacity: number
  /** Units of the capacity that are in use: `capacity` − `remaining`. */
  readonly used: number
  /** The largest cost that would be admitted now, after this call. */
  readonly remaining: number
  /**
   * Whole milliseconds, rounded up, until the same cost would be admitted if nothing else changed the key, and no
   * clock stepped; one millisecond earlier it would be refused. 0 if the call was admitted, `null` if it can
   * never be. At most the time until an override ends.
   */
  readonly retryAfterMs: number | null
  /**
   * Whole milliseconds, rounded up, until a call of cost 1 would be admitted, exact as `retryAfterMs`: 0 if `remaining`
   * is at least 1. Under `concurrency` it is the time until a permit expires, if none is released or renewed.
   */
  readonly nextAfterMs: number
  /**
   * Whole milliseconds, rounded up, until the key has its full allowance again; under `calendarWindow` until the
   * window ends, also if no call was counted in it.
   */
  readonly resetAfterMs: number
}

/** What all decisions have. Not exported, so that the types that a program infers do not name it. */
type Shared<N extends string> = PolicyNumbers & {
  /** The name of the policy that the numbers describe; `'default'` for a single policy. */
  readonly policy: N
  /** The numbers of each policy, by name. All names are present, whatever the `source`. */
  readonly policies: { readonly [Name in N]: PolicyNumbers }
  /** The time of the decision by the deciding clock, in epoch milliseconds with microsecond precision. */
  readonly at: number
  /** The time of `resetAfterMs` in whole epoch milliseconds, rounded up: under windows exactly their end. */
  readonly resetAt: number
  /**
   * The origin of the decision: `'store'`; `'cache'` for a refusal that this process knew already,
   * or `'lease'` for a call that used units which this process had charged in advance (see
   * `LocalDecisions`); after a failure of the store `'fallback'` for the embedded share, or `'none'` for a fixed
   * answer (see `OnStoreFailure`).
   *
   * With `'none'` nothing was counted: `remaining` is 0, `at` is by this process's clock, and the `retryAfterMs`
   * of a refused call is 1000, a time to try again.
   */
  readonly source: 'store' | 'cache' | 'lease' | 'fallback' | 'none'
  /**
   * What a later refund needs besides the times, by name, if the key was refunded, reset or changed while units
   * were charged. A copy of a decision must have it: without it fewer units come back, or none.
   */
  readonly marks?: { readonly [Name in N]?: number }
  /** `true` if an earlier call with the same `id` was charged: this is the decision on that call, with its numbers. */
  readonly repeated?: true
}

/**
 * The answer to a call: a plain object. `allowed` and `status` tell its kind.
 *
 * @typeParam N - The names of the limits: `'default'` for a single policy.
 *
 * @example
 * const decision = await limiter.take('user:42')
 * if (!decision.allowed) console.log(decision.policy, decision.retryAfterMs)
 */
export type Decision<N extends string = string> = Shared<N> &
  (
    | {
        /** `true`: the call may proceed. Its cost has been charged. */
        readonly allowed: true
        /** `'allowed-last'`: the call took the last unit. */
        readonly status: 'allowed' | 'allowed-last'
        /** 0: the same cost was admitted now. */
        readonly retryAfterMs: 0
        /** `at` in whole epoch milliseconds, rounded up. */
        readonly retryAt: number
      }
    | {
        /** `false`: the call may not proceed. Nothing has been charged. */
        readonly allowed: false
        /** `'refused'`: the cost does not fit now. It fits after `retryAfterMs`. */
        readonly status: 'refused'
        /** Whole milliseconds, rounded up, until the same cost fits. With `source` `'none'` a time to try again. */
        readonly retryAfterMs: number
        /** The time of `retryAfterMs`, in whole epoch milliseconds by the deciding clock. */
        readonly retryAt: number
      }
    | {
        /** `false`: the call may not proceed. Nothing has been charged. */
        readonly allowed: false
        /** `'blocked'`: `block`, `blockFor` or a ban refuses every call on the key for a time. */
        readonly status: 'blocked'
        /** Whole milliseconds, rounded up, until the block has ended and the cost fits. */
        readonly retryAfterMs: number
        /** The time of `retryAfterMs`, in whole epoch milliseconds by the deciding clock. */
        readonly retryAt: number
        /** The ban, if the block is one: the last to end, if several keys of the call are banned. */
        readonly ban?: {
          /** The number of its length in `for` of `BanOptions`, from 1. */
          readonly step: number
          /** Its end by the deciding clock, in whole epoch milliseconds, rounded up. */
          readonly until: number
        }
      }
    | {
        /** `false`: the call may not proceed. Nothing has been charged. */
        readonly allowed: false
        /** `'impossible'`: the cost is above `capacity`, so it never fits. */
        readonly status: 'impossible'
        /** `null`: no time helps. */
        readonly retryAfterMs: null
        /** `null`: no time helps. */
        readonly retryAt: null
      }
  )

/** A decision that admits the call. */
export type Allowed<N extends string = string> = Extract<Decision<N>, { readonly allowed: true }>

/** A decision that does not admit the call. */
export type NotAllowed<N extends string = string> = Extract<Decision<N>, { readonly allowed: false }>

/**
 * The place where a change of a key was applied: `'store'`, for all processes; `'fallback'`, in the embedded
 * share of this process until the outage ends; or `false`, nowhere, because the store failed. After
 * a timeout the change may still have reached the store. @inline
 */
export type Applied = 'store' | 'fallback' | false
