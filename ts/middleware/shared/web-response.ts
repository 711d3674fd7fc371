import type { Gate, Outcome } from './request-limiter.js'

/** A response with the fields of an outcome. One that cannot be changed, as those of `fetch`, is copied. */
export function withFields<A extends readonly unknown[]>(
  gate: Gate<A>,
  outcome: Outcome,
  response: Response,
): Response {
  let written = response
  gate.write(outcome, (name, value, isList) => {
    try {
      setField(written, name, value, isList)
    } catch {
      written = new Response(written.body, written)
      setField(written, name, value, isList)
    }
  })
  return written
}

function setField({ headers }: Response, name: string, value: string, isList: boolean): void {
  if (isList) {
    headers.append(name, value)
  } else {
    headers.set(name, value)
  }
}

/** The response of a refusal, without its fields. */
export function refusal(message: string | object, status: number): Response {
  return typeof message === 'string' ? new Response(message, { status }) : Response.json(message, { status })
}

/** The response to a request of which no key or cost can be made: what `onInvalidInput` has made, if it made one. */
export function invalidResponse({ answer, message, status }: Extract<Outcome, { what: 'invalid' }>): Response {
  return answer instanceof Response ? answer : refusal(message, status)
}

/**
 * Runs what answers a request, and gives its units back, as `refundWhen` says, when it has answered or the client
 * has gone away. What becomes of a body that is sent later is not seen.
 *
 * @param signalOf - The request's signal, if it has one. It is asked only where it is needed.
 * @param run - Answers, and tells the status.
 */
export async function follow<A extends readonly unknown[]>(
  gate: Gate<A>,
  outcome: Outcome,
  args: A,
  signalOf: () => AbortSignal | undefined,
  run: () => Promise<number>,
): Promise<void> {
  const decision = outcome.what === 'pass' ? outcome.decision : undefined
  if (decision === undefined || !gate.refunds) {
    await run()
    return
  }
  let settled: Promise<void> | undefined
  const settle = (status: number, aborted: boolean) => {
    settled ??= gate.settle(decision, { status, aborted }, args)
    return settled
  }
  const signal = signalOf()
  const onAbort = () => void settle(500, true)
  signal?.addEventListener('abort', onAbort)
  let status = 500
  try {
    status = await run()
  } finally {
    signal?.removeEventListener('abort', onAbort)
    // Waited for: where nobody waits, platforms may stop what goes on after the response.
    await settle(status, signal?.aborted === true)
  }
}
