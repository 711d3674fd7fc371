import type { ExecutionContext } from '@nestjs/common'
import { TollgateError } from '../../api/error.js'
import { isForwarded, type NodeRequest, readTogether } from '../shared/node-response.js'
import type { Host } from '../shared/request-limiter.js'
import type { Args } from './options.js'

/** What is used of a request of Express or Fastify. */
interface HttpRequest extends NodeRequest {
  readonly ip?: string
  readonly ips?: readonly string[]
  readonly app?: { get(setting: string): unknown }
}

/** How requests of Nest are read. */
export const HOST: Host<Args> = {
  name: 'tollgate/nest',
  goesOn: readTogether,
  addressOf: (context) => requestOf(context).ip,
  isProxyUntrusted: (context) => {
    const request = requestOf(context)
    const { app, ips } = request
    return isForwarded(request) && (typeof app?.get === 'function' ? app.get('trust proxy') === false : !ips)
  },
  mark: (property, decision, context) => {
    ;(requestOf(context) as unknown as Record<string, unknown>)[property] = decision
  },
}

function requestOf(context: ExecutionContext): HttpRequest {
  if (context.getType() !== 'http') {
    const rule = 'limits HTTP requests alone: exempt what else an app serves by skip or @RateLimit(false)'
    throw new TollgateError('INVALID_OPTION', `RateLimitGuard ${rule}`)
  }
  return context.switchToHttp().getRequest<HttpRequest>()
}
