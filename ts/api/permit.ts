/// <reference lib="esnext.disposable" preserve="true" />
import type { CallId } from '../backends/operation.js'
import type { Units } from '../backends/units.js'
import { type Duration, MAX_WAIT_MS, wholeMillis } from '../input/duration.js'
import { Keys, tagOf } from '../input/keys.js'
import { optionsOf } from '../input/options.js'
import type { UnitsBy } from '../policies/cost-of.js'
import type { PolicySet } from '../policies/policy-set.js'
import type { IfSettles } from './availability.js'
import { callIdOf } from './call-id.js'
import type { TakeOptions } from './call-options.js'
import type { Decision } from './decision.js'
import { TollgateError } from './error.js'
import type { Reservation } from './reservation.js'
import { type AbortSignalLike, signalOf } from './wait.js'

/**
 * Options of `acquire`. With tiers they also have the `tier`.
 *
 * @example
 * await using permit = await permits.acquire('model:large', { cost: 2, maxWait: '5s' })
 */
export interface AcquireOptions extends TakeOptions {
  /**
   * As in {@link TakeOptions}: `acquire` with the same `id` on the same key gets the same permit while it is held. Later
   * it gets the permit again, under `concurrency` alone: the other policies charge an `id` once. `reserve` of the same
   * limiter shares these ids.
   */
  readonly id?: string
  /** The longest wait for a permit: 0 to 3,600,000 milliseconds, or a duration such as `'5s'`. Default: 0. */
  readonly maxWait?: Duration
  /** An `AbortSignal` that ends the wait. */
  readonly signal?: AbortSignalLike
}

/** The `AbortSignal` of the platform; its common part if the program has no types of a platform. */
export type PermitSignal = typeof globalThis extends {
  readonly AbortSignal: { readonly prototype: infer Signal extends AbortSignalLike }
}
  ? Signal
  : AbortSignalLike

/**
 * The result of `acquire`; `allowed` narrows its type.
 *
 * @typeParam N - The names of the limits: `'default'` for a single policy.
 * @typeParam M - The meters of the policies; `never` without any.
 * @typeParam S - Whether it can be settled: the limiter has policies beside `concurrency`, and no `slidingCounter`.
 *
 * @example
 * await using permit = await permits.acquire('model:large')
 * if (permit.allowed) await generate({ signal: permit.signal })
 */
export type Permit<N extends string = string, M extends string = never, S extends boolean = boolean> =
  | {
      /** `true`: units are held until they are released. */
      readonly allowed: true
      /** The decision. `refund` does not accept it: settle or release the permit instead. */
      readonly decision: Extract<Decision<N>, { readonly allowed: true }>
      /** The units that were taken; with meters those of each meter. `extend` adds to them. */
      readonly units: UnitsBy<M>
      /**
       * It is aborted before the permit is lost: after nine tenths of `ttl` without a successful renewal, or if
       * the store answers that the permit has expired. Pass it to the work: another caller may get the permit.
       */
      readonly signal: PermitSignal
      /**
       * Releases the permit. Units of other policies stay charged, and cannot be settled any more. May be called again,
       * also after `commit` and `cancel`, with the same result.
       *
       * @returns Whether the permit was still held when it ended: `false` if it had expired before.
       */
      release(): Promise<boolean>
      /**
       * Releases the permit, and settles the units of the other policies, in one step: see {@link Reservation}. Only
       * the first settlement has an effect, so it may be repeated after an unknown outcome.
       */
      readonly commit: IfSettles<S, 'commit', Reserved<N, M>['commit']>
      /** Releases the permit, and refunds all units of the other policies. */
      readonly cancel: IfSettles<S, 'cancel', Reserved<N, M>['cancel']>
      /** Takes further units of the other policies: see {@link Reservation}. */
      readonly extend: IfSettles<S, 'extend', Reserved<N, M>['extend']>
      /** Makes the units longer ready to be settled: see {@link Reservation}. Permits are renewed without it. */
      readonly renew: IfSettles<S, 'renew', Reserved<N, M>['renew']>
      /** Identifies the permit for `settle` of a limiter in any process: see {@link Reservation}. */
      readonly id: IfSettles<S, 'id', string>
      /**
       * Until when it can be settled: epoch milliseconds by the deciding clock. For `acquire` each renewal of the permit
       * moves it.
       */
      readonly expiresAt: IfSettles<S, 'expiresAt', number>
      /** `release`, for `await using`. It never rejects: a permit that is not released expires. */
      [Symbol.asyncDispose](): Promise<void>
    }
  | {
      /** `false`: nothing is held, so there is nothing to release. */
      readonly allowed: false
      /**
       * The refusal. Under `concurrency` its `retryAfterMs` is the time until enough permits have expired, or the mean
       * time for which this process held the latest permits if that is less.
       */
      readonly decision: Extract<Decision<N>, { readonly allowed: false }>
      /** Does nothing. */
      [Symbol.asyncDispose](): Promise<void>
    }

type Reserved<N extends string, M extends string> = Extract<Reservation<N, M>, { readonly allowed: true }>

/** The checked arguments of a call for a permit. */
export interface AcquireCall {
  readonly units: Units
  readonly maxWaitMs: number
  readonly signal: AbortSignalLike | undefined
  readonly tag: string | undefined
  /** Not checked. */
  readonly tier: unknown
  /** The time until the units cannot be settled any more, in microseconds. By default it is that of the permit. */
  readonly ttlUs?: number
  readonly callId?: CallId | undefined
}

/** Checks {@link AcquireOptions}. @param costIn - Checks the cost of a call of a tier. */
export function acquireCallOf(value: unknown, costIn: (cost: unknown, tier: unknown) => Units): AcquireCall {
  const names = ['cost', 'maxWait', 'signal', 'tag', 'tier', 'id', 'idTtl'] as const
  const { cost, maxWait = 0, signal, tag, tier, id, idTtl } = optionsOf('INVALID_OPTION', 'acquire', value ?? {}, names)
  return {
    units: costIn(cost, tier),
    maxWaitMs: wholeMillis('maxWait', maxWait, 0, MAX_WAIT_MS),
    signal: signalOf(signal),
    tag: tagOf(tag),
    tier,
    callId: callIdOf('acquire', id, idTtl),
  }
}

/** Whether a policy set has a `concurrency` policy. */
export function hasConcurrency({ policies }: PolicySet): boolean {
  return policies.some(({ policy }) => policy.algorithm === 'concurrency')
}

/** The life of a permit: the shortest one under several policies. */
export function expiresMsOf({ policies }: PolicySet): number {
  const lives = policies.map(({ policy }) => (policy.algorithm === 'concurrency' ? policy.ttl : Infinity))
  return Math.min(...lives)
}

/** The keys of a call, without those that only other policies count by. */
export function permitKeys({ policies }: PolicySet, { keys, tag }: Keys): Keys {
  const dimensions = policies.filter(({ policy }) => policy.algorithm === 'concurrency')
  const own = new Set(dimensions.map(({ dimension }) => dimension))
  return new Keys(
    keys.map((key, dimension) => (own.has(dimension) ? key : undefined)),
    tag,
  )
}

export function needsAcquireError(method: string): TollgateError {
  const fix = 'use acquire(key), which returns a permit to release'
  return new TollgateError('INVALID_OPTION', `${method} cannot be used with a concurrency policy: ${fix}`)
}
