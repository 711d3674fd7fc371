import type { ExecutionContext, FactoryProvider, ModuleMetadata } from '@nestjs/common'
import type { Awaitable, KeyFunction, KeyOrAddress, NotAllowed, RateLimitOptions } from '../shared/options.js'

/** The arguments of users' functions. */
export type NestArgs = [context: ExecutionContext]

/** The handlers that replace the guard's own answers. */
export interface NestAnswers<N extends string = string> {
  /**
   * Called for a refused request, in place of `statusCode` and `message`. Throws an exception, or
   * returns whether the request continues after all.
   */
  readonly handler?: (context: ExecutionContext, decision: NotAllowed<N>) => Awaitable<boolean>
  /**
   * Called if no decision could be made. Throws, or returns whether the request continues. Default:
   * throws an `HttpException` with status 503 if the limiter failed; other errors are thrown
   * unchanged.
   */
  readonly onError?: (error: unknown, context: ExecutionContext) => Awaitable<boolean>
}

/** The options of `RateLimitModule`. The decision is attached to the request. */
export type NestRateLimitOptions<K = string, N extends string = string> = RateLimitOptions<K, N, NestArgs> &
  KeyOrAddress<K, NestArgs> &
  NestAnswers<N>

/** A key of any limiter. */
export type AnyKey = string | { readonly [part: string]: string }

/**
 * The options of `RateLimit`: any of the module's options. Without a `limiter`, the module's
 * limiter decides, whatever the type of its keys.
 */
export type NestOwnOptions<K = AnyKey, N extends string = string> = Partial<RateLimitOptions<K, N, NestArgs>> &
  NestAnswers<N> & {
    /** Makes the key of a request. Default: the module's function. */
    readonly key?: KeyFunction<NoInfer<K>, NestArgs>
  }

/** Options for keys of any type, as Nest stores them. */
export type AnyNestOptions = NestRateLimitOptions | NestRateLimitOptions<{ readonly [part: string]: string }>

/** The injection token of a `RateLimitGuard`'s options. */
export const RATE_LIMIT_OPTIONS: unique symbol = Symbol.for('tollgate.nest.options')

/** The options of `RateLimitModule.forRootAsync`. */
export interface NestRateLimitAsyncOptions<K = string, N extends string = string> {
  /** Modules that provide the injected values. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>
  /** The providers to inject into the factory. */
  readonly inject?: NonNullable<FactoryProvider['inject']>
  /** Creates the options. */
  // biome-ignore lint/suspicious/noExplicitAny: only the caller knows the injected types.
  readonly useFactory: (...injected: any[]) => Awaitable<NestRateLimitOptions<K, N>>
}
