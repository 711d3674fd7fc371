import { type ExecutionContext, HttpException, HttpStatus } from '@nestjs/common'
import type { NotAllowed } from '../../api/decision.js'
import type { OwnResponse } from '../shared/responses.js'
import { responseIn } from './contexts.js'

type ExceptionClass = new (error: object) => Error

/** The exception that Nest reports to the client. `decision` refuses the request; `cause` has prevented a decision. */
export function exceptionFor(
  { message, status, type }: OwnResponse,
  context: ExecutionContext,
  decision?: NotAllowed,
  cause?: unknown,
): Error {
  const protocol = context.getType<string>()
  if (protocol === 'http') {
    setMediaType(type, context)
    return new HttpException(message, status, { cause })
  }
  const retryAfterMs = decision?.retryAfterMs
  const members = { status, ...(retryAfterMs !== undefined && { retryAfterMs }) }
  const OwnException = exceptionClassOf(protocol)
  if (OwnException !== undefined) {
    return new OwnException({ ...members, ...(typeof message === 'string' ? { message } : message) })
  }
  // GraphQL sends the extensions of an error.
  const extensions = { code: HttpStatus[status] ?? String(status), ...members }
  return Object.assign(new HttpException(message, status, { cause }), { extensions })
}

/** The class of the exceptions that Nest sends to clients of a protocol. Others become an internal error. */
function exceptionClassOf(protocol: string): ExceptionClass | undefined {
  try {
    if (protocol === 'ws') {
      return (require('@nestjs/websockets') as { readonly WsException: ExceptionClass }).WsException
    }
    if (protocol === 'rpc') {
      return (require('@nestjs/microservices') as { readonly RpcException: ExceptionClass }).RpcException
    }
  } catch {
    // The module is not installed: the app's own protocol has that name.
  }
  return undefined
}

function setMediaType(type: string | undefined, context: ExecutionContext): void {
  const response = responseIn(context, {})
  if (type === undefined || response === undefined) {
    return
  }
  const mediaType = `${type}; charset=utf-8`
  if ('raw' in response) {
    response.header('Content-Type', mediaType)
  } else {
    // As a list: over Express, Nest replaces the type of an error's body if it is another text.
    response.setHeader('Content-Type', [mediaType])
  }
}
