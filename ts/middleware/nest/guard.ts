import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  type OnModuleInit,
  Optional,
  type Type,
} from '@nestjs/common'
import { MetadataScanner, ModulesContainer, Reflector } from '@nestjs/core'
import { mergedOptions } from '../shared/merged-options.js'
import { applyOutcome, replyHeaders } from '../shared/node-response.js'
import { RequestLimiter } from '../shared/request-limiter.js'
import { CLIENT_GONE, UNAVAILABLE } from '../shared/responses.js'
import { isStoreFailure } from '../shared/store-failure.js'
import { adapterFor, attachAtLast, nameOf, rawOf } from './adapter.js'
import { checkOwnOptions, namedLimiter, namesOf } from './checks.js'
import { responseIn } from './contexts.js'
import { METADATA, type RouteRule } from './decorator.js'
import { exceptionFor } from './exceptions.js'
import { type AnyNestOptions, type NestArgs, RATE_LIMIT_OPTIONS } from './options.js'

interface RouteLimiter {
  readonly requestLimiter: RequestLimiter<NestArgs>
  readonly options: AnyNestOptions
}

/** Admits the requests that the limiter allows. `RateLimitModule` installs it before all routes. */
export class RateLimitGuard implements CanActivate, OnModuleInit {
  readonly #options: AnyNestOptions | undefined
  readonly #reflector: Reflector
  readonly #modules: ModulesContainer | undefined
  /** The limiters of routes, by the value that `RateLimit` has stored; by this guard for the module's options. */
  readonly #routeLimiters = new WeakMap<object, RouteLimiter>()

  constructor(options: AnyNestOptions | undefined, reflector: Reflector, modules?: ModulesContainer) {
    this.#options = options
    this.#reflector = reflector
    this.#modules = modules
    if (options !== undefined) {
      const names = namesOf(options)
      for (const name of names) {
        this.#routeLimiterFor({ name }, 'RateLimitModule')
      }
      if (names.length === 0 || options.limiter !== undefined) {
        this.#routeLimiterFor(undefined, 'RateLimitModule')
      }
    }
  }

  /** Throws if a handler or a class of the app names an unknown limiter. Nest calls it at the start. */
  onModuleInit(): void {
    const scanner = new MetadataScanner()
    for (const { controllers, providers } of this.#modules?.values() ?? []) {
      for (const { metatype } of [...controllers.values(), ...providers.values()]) {
        const prototype = metatype?.prototype as Readonly<Record<string, Type>> | undefined
        if (prototype !== undefined) {
          this.#checkName(metatype as Type, prototype.constructor.name)
          for (const method of scanner.getAllMethodNames(prototype)) {
            this.#checkName(prototype[method] as Type, `${prototype.constructor.name}.${method}`)
          }
        }
      }
    }
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const rule = this.#reflector.getAllAndOverride<RouteRule | false | undefined>(METADATA, [
      context.getHandler(),
      context.getClass(),
    ])
    if (rule === false || (rule === undefined && this.#hasOnlyNames())) {
      return true
    }
    if (context.getType() !== 'http' && isRepeated(context, this.#options ?? rule)) {
      return true
    }
    const { requestLimiter, options } = this.#routeLimiterFor(rule, nameOf(context))
    const args: NestArgs = [context]
    const outcome = await requestLimiter.check(args)
    if (outcome.kind === 'fail') {
      return this.#handleError(outcome.error, context, options)
    }
    if (outcome.kind === 'invalid') {
      throw exceptionFor(outcome.response, context)
    }
    if (outcome.kind === 'gone') {
      throw exceptionFor(CLIENT_GONE, context)
    }
    const response = outcome.decision === undefined ? undefined : responseIn(context, options)
    if (response !== undefined) {
      const headers = 'raw' in response ? replyHeaders(response) : response
      applyOutcome(requestLimiter, outcome, args, rawOf(response), headers)
    }
    if (outcome.kind === 'refuse' && options.handler === undefined) {
      throw exceptionFor(await requestLimiter.refusalFor(outcome.decision, args), context, outcome.decision)
    }
    const isAdmitted = outcome.kind === 'pass' || Boolean(await options.handler?.(context, outcome.decision))
    if (isAdmitted) {
      attachAtLast(context, options)
    }
    return isAdmitted
  }

  async #handleError(error: unknown, context: ExecutionContext, { onError }: AnyNestOptions): Promise<boolean> {
    if (onError !== undefined) {
      return onError(error, context)
    }
    if (!isStoreFailure(error)) {
      throw error
    }
    throw exceptionFor(UNAVAILABLE, context, undefined, error)
  }

  /** Whether the module has limiters for some routes, and none for the others. */
  #hasOnlyNames(): boolean {
    return this.#options?.limiter === undefined && this.#options?.limiters !== undefined
  }

  #checkName(target: Type, place: string): void {
    const rule = this.#reflector.get<RouteRule | false | undefined>(METADATA, target)
    if (rule && rule.name !== undefined) {
      namedLimiter(this.#options ?? {}, rule.name, place)
    }
  }

  #routeLimiterFor(rule: RouteRule | undefined, place: string): RouteLimiter {
    const existing = this.#routeLimiters.get(rule ?? this)
    if (existing !== undefined) {
      return existing
    }
    const { name, own } = rule ?? {}
    const common = this.#options ?? {}
    const where = name === undefined ? 'RateLimit' : `RateLimit: limiters.${name}`
    const named = name === undefined ? undefined : namedLimiter(common, name, place)
    const options = mergedOptions(mergedOptions(common, named), own)
    const routeLimiter = { requestLimiter: new RequestLimiter(where, options, adapterFor(options)), options }
    checkOwnOptions(where, options)
    this.#routeLimiters.set(rule ?? this, routeLimiter)
    return routeLimiter
  }
}

/** The options of the guards that have run in a context that is not HTTP. */
const guarded = new WeakMap<ExecutionContext, Set<unknown>>()

/** Whether a guard with these options has run in a context. Under Nest 12 those of app and gateway both run. */
function isRepeated(context: ExecutionContext, options: unknown): boolean {
  const known = guarded.get(context) ?? new Set()
  guarded.set(context, known)
  return known.size === known.add(options).size
}

// As @Injectable() and @Inject() do: this package is compiled without decorators.
Injectable()(RateLimitGuard)
Optional()(RateLimitGuard, undefined, 0)
Inject(RATE_LIMIT_OPTIONS)(RateLimitGuard, undefined, 0)
Inject(Reflector)(RateLimitGuard, undefined, 1)
Optional()(RateLimitGuard, undefined, 2)
Inject(ModulesContainer)(RateLimitGuard, undefined, 2)
