import { type CanActivate, type ExecutionContext, HttpException, Inject, Injectable, Optional } from '@nestjs/common'
import { Reflector } from '@nestjs/core'
import { TollgateError } from '../../api/error.js'
import { mergedOptions } from '../shared/merged-options.js'
import {
  applyOutcome,
  type FastifyReplyLike,
  type NodeHeaders,
  type NodeResponse,
  replyHeaders,
} from '../shared/node-response.js'
import { RequestLimiter } from '../shared/request-limiter.js'
import type { OwnResponse } from '../shared/responses.js'
import { ADAPTER } from './adapter.js'
import { METADATA } from './decorator.js'
import { type AnyNestOptions, type NestArgs, RATE_LIMIT_OPTIONS } from './options.js'

/** Admits the requests that the limiter allows. `RateLimitModule` installs it before all routes. */
export class RateLimitGuard implements CanActivate {
  readonly #options: AnyNestOptions | undefined
  readonly #reflector: Reflector
  /**
   * The request limiters, by the options of `RateLimit`. The key of the module's own options is
   * this guard.
   */
  readonly #requestLimiters = new WeakMap<
    object,
    { readonly requestLimiter: RequestLimiter<NestArgs>; readonly options: AnyNestOptions }
  >()

  constructor(options: AnyNestOptions | undefined, reflector: Reflector) {
    this.#options = options
    this.#reflector = reflector
    if (options !== undefined) {
      this.#requestLimiterFor(undefined)
    }
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const overrides = this.#reflector.getAllAndOverride<Partial<AnyNestOptions> | false | undefined>(METADATA, [
      context.getHandler(),
      context.getClass(),
    ])
    if (overrides === false) {
      return true
    }
    const { requestLimiter, options } = this.#requestLimiterFor(overrides)
    const args: NestArgs = [context]
    const outcome = await requestLimiter.check(args)
    if (outcome.kind === 'fail') {
      return this.#handleError(outcome.error, context, options)
    }
    if (outcome.kind === 'invalid') {
      throw exceptionFor(outcome.response, context)
    }
    if (outcome.decision !== undefined) {
      const response = responseOf(context)
      applyOutcome(requestLimiter, outcome, args, 'raw' in response ? response.raw : response, headersOf(context))
    }
    if (outcome.kind === 'pass') {
      return true
    }
    if (options.handler !== undefined) {
      return options.handler(context, outcome.decision)
    }
    throw exceptionFor(await requestLimiter.refusalFor(outcome.decision, args), context)
  }

  async #handleError(error: unknown, context: ExecutionContext, { onError }: AnyNestOptions): Promise<boolean> {
    if (onError !== undefined) {
      return onError(error, context)
    }
    throw TollgateError.is(error) ? new HttpException('Service Unavailable', 503, { cause: error }) : error
  }

  #requestLimiterFor(overrides: Partial<AnyNestOptions> | undefined): {
    readonly requestLimiter: RequestLimiter<NestArgs>
    readonly options: AnyNestOptions
  } {
    const existing = this.#requestLimiters.get(overrides ?? this)
    if (existing !== undefined) {
      return existing
    }
    const options = mergedOptions(this.#options ?? ({} as AnyNestOptions), overrides)
    const entry = { requestLimiter: new RequestLimiter('RateLimit', options, ADAPTER), options }
    this.#requestLimiters.set(overrides ?? this, entry)
    return entry
  }
}

function responseOf(context: ExecutionContext): NodeResponse | FastifyReplyLike {
  return context.switchToHttp().getResponse()
}

function headersOf(context: ExecutionContext): NodeHeaders {
  const response = responseOf(context)
  return 'raw' in response ? replyHeaders(response) : response
}

/** The exception that Nest answers with a response. */
function exceptionFor({ message, status, type }: OwnResponse, context: ExecutionContext): HttpException {
  if (type !== undefined) {
    const response = responseOf(context)
    const mediaType = `${type}; charset=utf-8`
    if ('raw' in response) {
      response.header('Content-Type', mediaType)
    } else {
      // As a list: over Express, Nest replaces the type of an error's body if it is another text.
      response.setHeader('Content-Type', [mediaType])
    }
  }
  return new HttpException(message, status)
}

// The effect of @Injectable() and @Inject(): this package is compiled without decorators.
Injectable()(RateLimitGuard)
Optional()(RateLimitGuard, undefined, 0)
Inject(RATE_LIMIT_OPTIONS)(RateLimitGuard, undefined, 0)
Inject(Reflector)(RateLimitGuard, undefined, 1)
