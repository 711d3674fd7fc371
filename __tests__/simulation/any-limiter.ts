/** The operations of a limiter of any policies, as programs without types call them. */
export interface AnyLimiter {
  readonly take: Method
  readonly takeSync: (...args: unknown[]) => unknown
  readonly takeMany: Method
  readonly takeUpTo: Method
  readonly peek: Method
  readonly penalize: Method
  readonly refund: Method
  readonly reset: Method
  readonly block: Method
  readonly unblock: Method
  readonly override: Method
  readonly clearOverride: Method
  readonly reserve: Method
  readonly settle: Method
  readonly wait: Method
  readonly acquire: Method
  readonly update: (policies: unknown) => void
}

type Method = (...args: unknown[]) => Promise<unknown>
