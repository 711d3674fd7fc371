import type { ExecutionContext } from '@nestjs/common'
import { TollgateError } from '../../api/error.js'
import { attachDecision } from '../shared/attach.js'
import {
  closeSignal,
  currentReadBarrier,
  type FastifyReplyLike,
  hasForwardedFor,
  type NodeRequest,
  type NodeResponse,
} from '../shared/node-response.js'
import type { FrameworkAdapter } from '../shared/request-limiter.js'
import type { NestArgs } from './options.js'

/** The part of an Express or Fastify request that the guard uses. */
interface HttpRequest extends NodeRequest {
  readonly ip?: string
  readonly ips?: readonly string[]
  readonly app?: { get(setting: string): unknown }
}

/** Reads Nest's requests. */
export const ADAPTER: FrameworkAdapter<NestArgs> = {
  name: 'tollgate/nest',
  readBarrier: currentReadBarrier,
  addressOf: (context) => requestOf(context).ip,
  isProxyUntrusted: (context) => {
    const request = requestOf(context)
    const { app, ips } = request
    return hasForwardedFor(request) && (typeof app?.get === 'function' ? app.get('trust proxy') === false : !ips)
  },
  trustsAnyProxy: (context) => {
    const { app } = requestOf(context)
    return typeof app?.get === 'function' && app.get('trust proxy') === true
  },
  requestOf,
  signalOf: (context) => {
    const response = context.switchToHttp().getResponse<NodeResponse | FastifyReplyLike>()
    return closeSignal('raw' in response ? response.raw : response)
  },
  attach: (property, decision, context) => attachDecision(requestOf(context), property, decision),
}

function requestOf(context: ExecutionContext): HttpRequest {
  if (context.getType() !== 'http') {
    const rule = 'limits only HTTP requests: exempt all others with skip or @RateLimit(false)'
    throw new TollgateError('INVALID_OPTION', `RateLimitGuard ${rule}`)
  }
  return context.switchToHttp().getRequest<HttpRequest>()
}
