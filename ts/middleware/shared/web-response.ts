import type { RequestLimiter, RequestOutcome } from './request-limiter.js'
import type { OwnResponse } from './responses.js'

/** Adds the headers of an outcome to a response. An immutable response, such as one from `fetch`, is copied. */
export function withHeaders<A extends readonly unknown[]>(
  requestLimiter: RequestLimiter<A>,
  outcome: RequestOutcome,
  response: Response,
): Response {
  let written = response
  requestLimiter.write(outcome, (name, value, isList) => {
    try {
      setHeader(written, name, value, isList)
    } catch {
      written = new Response(written.body, written)
      setHeader(written, name, value, isList)
    }
  })
  return written
}

function setHeader({ headers }: Response, name: string, value: string, isList: boolean): void {
  if (isList) {
    headers.append(name, value)
  } else {
    headers.set(name, value)
  }
}

/** The Web response of the middleware itself, without rate limit headers. */
export function webResponse({ status, message, type }: OwnResponse): Response {
  if (typeof message === 'string') {
    return new Response(message, { status })
  }
  return Response.json(message, type === undefined ? { status } : { status, headers: { 'content-type': type } })
}

/** The answer of `onInvalidInput`, if it is a response, or the default. */
export function invalidResponse({ answer, response }: Extract<RequestOutcome, { kind: 'invalid' }>): Response {
  return answer instanceof Response ? answer : webResponse(response)
}

/**
 * Runs a request's handler, which resolves to the status. Refunds the request, if `refundWhen` says so, as soon as the
 * handler has returned or the client has disconnected. A body that is streamed later is not observed.
 *
 * @param signalOf - Returns the request's signal, if there is one. Called only if the signal is needed.
 */
export async function runAndRefund<A extends readonly unknown[]>(
  requestLimiter: RequestLimiter<A>,
  outcome: RequestOutcome,
  args: A,
  signalOf: () => AbortSignal | undefined,
  run: () => Promise<number>,
): Promise<void> {
  const decision = outcome.kind === 'pass' ? outcome.decision : undefined
  if (decision === undefined || !requestLimiter.mayRefund) {
    await run()
    return
  }
  let ended: Promise<void> | undefined
  const end = (aborted: boolean, status?: number) => {
    ended ??= requestLimiter.refundAtEnd(decision, args, aborted, status)
    return ended
  }
  const signal = signalOf()
  const onAbort = () => void end(true)
  signal?.addEventListener('abort', onAbort)
  let status = 500
  try {
    status = await run()
  } finally {
    signal?.removeEventListener('abort', onAbort)
    // Awaited, because platforms may stop work that goes on after the response.
    await (signal?.aborted ? end(true) : end(false, status))
  }
}
