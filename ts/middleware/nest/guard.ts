import { type CanActivate, type ExecutionContext, HttpException, Inject, Injectable, Optional } from '@nestjs/common'
import { Reflector } from '@nestjs/core'
import { TollgateError } from '../../api/error.js'
import { follow, headersOf, type NodeReply, type NodeResponse } from '../shared/node-response.js'
import { Gate } from '../shared/request-limiter.js'
import { HOST } from './adapter.js'
import { METADATA } from './decorator.js'
import { type AnyOptions, type Args, RATE_LIMIT_OPTIONS } from './options.js'

/** Lets requests through that their limiter allows. `RateLimitModule` sets it before all routes. */
export class RateLimitGuard implements CanActivate {
  readonly #options: AnyOptions | undefined
  readonly #reflector: Reflector
  /** By what `RateLimit` says; the module's alone by this guard itself. */
  readonly #gates = new WeakMap<object, { readonly gate: Gate<Args>; readonly options: AnyOptions }>()

  constructor(options: AnyOptions | undefined, reflector: Reflector) {
    this.#options = options
    this.#reflector = reflector
    if (options !== undefined) {
      this.#gateFor(undefined)
    }
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const own = this.#reflector.getAllAndOverride<Partial<AnyOptions> | false | undefined>(METADATA, [
      context.getHandler(),
      context.getClass(),
    ])
    if (own === false) {
      return true
    }
    const { gate, options } = this.#gateFor(own)
    const args: Args = [context]
    const outcome = await gate.check(args)
    if (outcome.what === 'fail') {
      return this.#failed(outcome.error, context, options)
    }
    if (outcome.what === 'invalid') {
      throw new HttpException(outcome.message, outcome.status)
    }
    if (outcome.decision !== undefined) {
      const response = context.switchToHttp().getResponse<NodeResponse | NodeReply>()
      if ('raw' in response) {
        follow(gate, outcome, args, response.raw, headersOf(response))
      } else {
        follow(gate, outcome, args, response)
      }
    }
    if (outcome.what === 'pass') {
      return true
    }
    if (options.handler !== undefined) {
      return options.handler(context, outcome.decision)
    }
    throw new HttpException(await gate.messageFor(outcome.decision, args), gate.statusCode)
  }

  async #failed(error: unknown, context: ExecutionContext, { onError }: AnyOptions): Promise<boolean> {
    if (onError !== undefined) {
      return onError(error, context)
    }
    throw TollgateError.is(error) ? new HttpException('Service Unavailable', 503, { cause: error }) : error
  }

  #gateFor(own: Partial<AnyOptions> | undefined): { readonly gate: Gate<Args>; readonly options: AnyOptions } {
    const made = this.#gates.get(own ?? this)
    if (made !== undefined) {
      return made
    }
    const options = { ...this.#options, ...own } as AnyOptions
    const entry = { gate: new Gate('RateLimit', options, HOST), options }
    this.#gates.set(own ?? this, entry)
    return entry
  }
}

// As @Injectable() and @Inject() do it: this package is compiled without decorators.
Injectable()(RateLimitGuard)
Optional()(RateLimitGuard, undefined, 0)
Inject(RATE_LIMIT_OPTIONS)(RateLimitGuard, undefined, 0)
Inject(Reflector)(RateLimitGuard, undefined, 1)
