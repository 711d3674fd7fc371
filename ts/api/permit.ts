import { type Duration, MAX_WAIT_MS, wholeMillis } from '../input/duration.js'
import { tagOf } from '../input/keys.js'
import { optionsOf, wholeNumber } from '../input/options.js'
import type { ConcurrencyPolicy } from '../policies/concurrency.js'
import type { Policy } from '../policies/policy.js'
import type { KeyOf, LimitNames, Policies, PolicySet } from '../policies/policy-set.js'
import type { TakeOptions } from './call-options.js'
import type { Allowed, Blocked, Impossible, Refused } from './decision.js'
import { TollgateError } from './error.js'
import { type AbortSignalLike, signalOf } from './wait.js'

/** Options of {@link Acquiring.acquire}. */
export interface AcquireOptions<T extends string = never> extends TakeOptions<T> {
  /** The longest wait for a permit: 0 to 3,600,000 milliseconds, or a duration such as `'5s'`. Default: 0. */
  readonly maxWait?: Duration
  /** An `AbortSignal` that ends the wait. */
  readonly signal?: AbortSignalLike
}

/** The result of {@link Acquiring.acquire}; `allowed` narrows its type. */
export type Permit<N extends string = string> = Acquired<N> | NotAcquired<N>

/** The `AbortSignal` of the platform; its common part if the program has no types of a platform. */
export type PermitSignal = typeof globalThis extends {
  readonly AbortSignal: { readonly prototype: infer Signal extends AbortSignalLike }
}
  ? Signal
  : AbortSignalLike

/** Units that are held until they are released. */
export interface Acquired<N extends string = string> {
  readonly allowed: true
  /** The decision. `refund` does not accept it: release the permit instead. */
  readonly decision: Allowed<N>
  /** The units that are held. */
  readonly units: number
  /**
   * It is aborted before the permit is lost: after nine tenths of `ttl` without a successful renewal, or if
   * the store answers that the permit has expired. Pass it to the work: another caller may get the permit.
   */
  readonly signal: PermitSignal
  /**
   * Releases the permit. May be called again, with the same result.
   *
   * @returns Whether the permit was still held: `false` if it had expired before.
   */
  release(): Promise<boolean>
  /** {@link release}, for `await using`. It never rejects: a permit that is not released expires. */
  [Symbol.asyncDispose](): Promise<void>
}

/** No permit: nothing is held, so there is nothing to release. */
export interface NotAcquired<N extends string = string> {
  readonly allowed: false
  /**
   * The refusal. Under `concurrency` its `retryAfterMs` is the time until enough permits have expired, or the mean
   * time for which this process held the latest permits if that is less.
   */
  readonly decision: Refused<N> | Blocked<N> | Impossible<N>
  /** Does nothing. */
  [Symbol.asyncDispose](): Promise<void>
}

/** The methods of a limiter with a `concurrency` policy. */
export interface Acquiring<K = string, N extends string = 'default', T extends string = never> {
  /**
   * Takes units of all policies, if all of them fit, and holds those of `concurrency` with a permit
   * until it is released. Units of the other policies are charged as by `take`. This process renews its permits
   * every third of `ttl`. If it is killed, they expire.
   *
   * With `maxWait` the call waits for its turn: see `docs/operations.md#acquire` for the order.
   *
   * Rejects with `INVALID_OPTION` for a limiter without a `concurrency` policy, and with `ABORTED` or `CLOSED`
   * while it waits. If the outcome of a request is unknown (`STORE_TIMEOUT`), the permit is released.
   *
   * @example
   * const limiter = new RateLimiter(concurrency({ limit: 10 }))
   * await using permit = await limiter.acquire('model:large', { maxWait: '5s' })
   * if (permit.allowed) {
   *   await generate({ signal: permit.signal })
   * }
   */
  acquire(key: K, options?: AcquireOptions<T>): Promise<Permit<N>>
}

/** {@link Acquiring} for the policies of a limiter; nothing if none of them is a `concurrency`. */
export type AcquiringFor<P extends Policy | Policies, T extends string = never> =
  true extends HasConcurrency<P> ? Acquiring<KeyOf<P>, LimitNames<P>, T> : unknown

type HasConcurrency<P> = [P] extends [{ readonly algorithm: string }]
  ? IsConcurrency<P>
  : { [Name in keyof P]: IsConcurrency<P[Name]> }[keyof P]

type IsConcurrency<P> = [P] extends [ConcurrencyPolicy] ? true : false

/** The checked arguments of a call for a permit. */
export interface AcquireCall {
  readonly units: number
  readonly maxWaitMs: number
  readonly signal: AbortSignalLike | undefined
  readonly tag: string | undefined
  /** Not checked. */
  readonly tier: unknown
}

/** Checks {@link AcquireOptions}. */
export function acquireCallOf(value: unknown): AcquireCall {
  const names = ['cost', 'maxWait', 'signal', 'tag', 'tier'] as const
  const { cost = 1, maxWait = 0, signal, tag, tier } = optionsOf('INVALID_OPTION', 'acquire', value ?? {}, names)
  return {
    units: wholeNumber('INVALID_COST', 'cost', cost),
    maxWaitMs: wholeMillis('maxWait', maxWait, 0, MAX_WAIT_MS),
    signal: signalOf(signal),
    tag: tagOf(tag),
    tier,
  }
}

/** Whether a policy set has a `concurrency` policy. */
export function hasConcurrency({ policies }: PolicySet): boolean {
  return policies.some(({ policy }) => policy.algorithm === 'concurrency')
}

export function needsAcquireError(method: string): TollgateError {
  const fix = 'use acquire(key), which returns a permit to release'
  return new TollgateError('INVALID_OPTION', `${method} cannot be used with a concurrency policy: ${fix}`)
}
