import type { ExecutionContext, FactoryProvider, ModuleMetadata } from '@nestjs/common'
import type { Awaitable, KeyFunction, KeyOrAddress, NotAllowed, RateLimitOptions } from '../shared/options.js'

/** What the middleware is told of a request. */
export type Args = [context: ExecutionContext]

/** What answers in place of the guard. */
export interface NestAnswers<N extends string = string> {
  /**
   * Is called for a refused request in place of `statusCode` and `message`: throws an exception of its own, or
   * answers whether the request goes on after all.
   */
  readonly handler?: (context: ExecutionContext, decision: NotAllowed<N>) => Awaitable<boolean>
  /**
   * Is called for a request on which no decision could be made: throws, or answers whether it goes on. Default:
   * throws an `HttpException` of status 503, if the limiter failed; other errors are thrown as they are.
   */
  readonly onError?: (error: unknown, context: ExecutionContext) => Awaitable<boolean>
}

/** The options of `RateLimitModule`. The decision stands in the request. */
export type NestRateLimitOptions<K = string, N extends string = string> = RateLimitOptions<K, N, Args> &
  KeyOrAddress<K, Args> &
  NestAnswers<N>

/** A key of any kind. */
export type AnyKey = string | { readonly [part: string]: string }

/** What `RateLimit` says: any of the module's options. Without a `limiter` the module's decides, whatever its keys are. */
export type NestOwnOptions<K = AnyKey, N extends string = string> = Partial<RateLimitOptions<K, N, Args>> &
  NestAnswers<N> & {
    /** Who a request counts for. Default: the module's. */
    readonly key?: KeyFunction<NoInfer<K>, Args>
  }

/** Options of any keys, as Nest keeps them. */
export type AnyOptions = NestRateLimitOptions | NestRateLimitOptions<{ readonly [part: string]: string }>

/** The injection token of a `RateLimitGuard`'s options. */
export const RATE_LIMIT_OPTIONS: unique symbol = Symbol.for('tollgate.nest.options')

/** The options of `RateLimitModule.forRootAsync`. */
export interface NestRateLimitAsyncOptions<K = string, N extends string = string> {
  /** Modules that provide what is injected. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>
  /** What the factory is called with. */
  readonly inject?: NonNullable<FactoryProvider['inject']>
  /** Makes the options. */
  // biome-ignore lint/suspicious/noExplicitAny: what is injected is known to the caller alone.
  readonly useFactory: (...injected: any[]) => Awaitable<NestRateLimitOptions<K, N>>
}
