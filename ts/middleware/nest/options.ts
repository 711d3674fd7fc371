import type { ExecutionContext, FactoryProvider, ModuleMetadata } from '@nestjs/common'
import type { NotAllowed } from '../../api/decision.js'
import type {
  AnyCost,
  Awaitable,
  CostRequired,
  KeyFunction,
  KeyOrAddress,
  MiddlewareLimiter,
  RateLimitOptions,
} from '../shared/options.js'

/** The arguments of users' functions. */
export type NestArgs = [context: ExecutionContext]

/** The handlers that replace the guard's own answers. */
export interface NestAnswers<N extends string = string> {
  /**
   * Called for a refused request, in place of `statusCode` and `message`. Throws an exception, or returns whether the
   * request continues after all.
   */
  readonly handler?: (context: ExecutionContext, decision: NotAllowed<N>) => Awaitable<boolean>
  /**
   * Called if no decision could be made. Throws, or returns whether the request continues. Default: throws an
   * `HttpException` with status 503 if the store failed; other errors are thrown unchanged.
   */
  readonly onError?: (error: unknown, context: ExecutionContext) => Awaitable<boolean>
}

/** An object, and no promise of one. */
export type NotPromise = object & { readonly then?: never }

/** The options for contexts that are not HTTP, such as GraphQL and WebSockets, and for the scope. */
export interface NestContextOptions {
  /**
   * Returns the request behind a context that is not HTTP: for a GraphQL resolver the HTTP request, for a WebSocket
   * gateway the client's socket. The latest decision is attached to it. Its `ip` is the default key. Not called for HTTP. Default: such a context is an error.
   */
  readonly requestOf?: (context: ExecutionContext) => NotPromise
  /**
   * Returns the response of Express or Fastify that gets the headers of a context that is not HTTP. Default, also if it
   * returns `undefined`: no headers.
   */
  readonly responseOf?: (context: ExecutionContext) => NotPromise | undefined
  /**
   * Whether a key counts for all handlers together, `'limiter'`, or for each handler separately, `'handler'`. Then
   * `Controller.method:` precedes each key, which must be a string. Default: `'limiter'`.
   */
  readonly scope?: 'limiter' | 'handler'
}

/** The options of one of the `limiters`: any of the module's options, with a limiter. */
export type NestNamedLimiter<K = AnyKey, N extends string = string, U = AnyCost> = NestOwnOptions<K, N, U> & {
  /** The limiter that decides. You close it yourself. */
  readonly limiter: MiddlewareLimiter<K, N, U>
}

/** Limiters by the names that `@RateLimit(name)` has. `L` has the types of their keys, by the same names. */
export type NestNamedLimiters<L = { readonly [name: string]: AnyKey }> = {
  readonly [Name in keyof L]: NestNamedLimiter<L[Name]>
}

/**
 * The options of `RateLimitModule`. The decision is attached to the request.
 *
 * @typeParam K - The limiter's keys.
 * @typeParam N - The names of its limits.
 * @typeParam L - The keys of the named limiters.
 * @typeParam U - The cost of a call of the limiter.
 */
export type NestRateLimitOptions<
  K = string,
  N extends string = string,
  L = { readonly [name: string]: AnyKey },
  U = number,
> = RateLimitOptions<K, N, NestArgs, never, U> &
  CostRequired<U> &
  KeyOrAddress<K, NestArgs> &
  NestAnswers<N> &
  NestContextOptions & {
    /** Limiters that `@RateLimit(name)` chooses. Their options replace those of the module. Default: none. */
    readonly limiters?: NestNamedLimiters<L>
  }

/** The options of `RateLimitModule` without a common limiter: only routes with `@RateLimit` are limited. */
export type NestLimitersOptions<L = { readonly [name: string]: AnyKey }> = Omit<NestOwnOptions, 'limiter'> & {
  /** None. */
  readonly limiter?: never
  /** Limiters that `@RateLimit(name)` chooses. */
  readonly limiters: NestNamedLimiters<L>
}

/** A key of any limiter. */
export type AnyKey = string | { readonly [part: string]: string }

/** The options of `RateLimit`: any of the module's options. Without a `limiter`, the module's limiter decides. */
export type NestOwnOptions<K = AnyKey, N extends string = string, U = AnyCost> = Partial<
  RateLimitOptions<K, N, NestArgs, never, U>
> &
  NestAnswers<N> &
  NestContextOptions & {
    /** Makes the key of a request. Default: the module's function. */
    readonly key?: KeyFunction<NoInfer<K>, NestArgs>
  }

/** Options for keys of any type, as Nest stores them. */
export type AnyNestOptions = NestOwnOptions & { readonly limiters?: NestNamedLimiters }

/** The injection token of a `RateLimitGuard`'s options. */
export const RATE_LIMIT_OPTIONS: unique symbol = Symbol.for('tollgate.nest.options')

/** Options of `RateLimitModule` from a factory, which returns an `R`. */
export interface NestFactoryOptions<R> {
  /** Modules that provide the injected values. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>
  /** The providers to inject into the factory. */
  readonly inject?: NonNullable<FactoryProvider['inject']>
  /** Creates the options. */
  // biome-ignore lint/suspicious/noExplicitAny: only the caller knows the injected types.
  readonly useFactory: (...injected: any[]) => Awaitable<R>
}

/** The options of `RateLimitModule.forRootAsync`. */
export type NestRateLimitAsyncOptions<
  K = string,
  N extends string = string,
  L = { readonly [name: string]: AnyKey },
  U = number,
> = NestFactoryOptions<NestRateLimitOptions<K, N, L, U>>
