import type { NotAllowed } from '../api/decision.js'

/** The name of a refusal in `_meta` of a result. */
const REFUSAL = 'tollgate/refusal'

/** A refusal in the form for programs: `_meta['tollgate/refusal']` of a {@link RefusedToolResult}. */
export interface ToolRefusal {
  /**
   * `'refused'`, `'blocked'` or `'impossible'`, as in a decision; `'unavailable'` if no store has decided; `'invalid'`
   * if no key or cost could be made, for instance because the request has no access token.
   */
  readonly status: 'refused' | 'blocked' | 'impossible' | 'unavailable' | 'invalid'
  /** Whole milliseconds until the same call may succeed; `null` if no time is known, or none helps. */
  readonly retryAfterMs: number | null
  /** The name of the limit that refused. */
  readonly policy?: string
}

/** The result of a call whose tool was not run: a tool execution error of the protocol, which models read. */
export interface RefusedToolResult {
  readonly content: readonly [{ readonly type: 'text'; readonly text: string }]
  readonly isError: true
  readonly _meta: { readonly [REFUSAL]: ToolRefusal }
}

export function refusedResult(text: string, refusal: ToolRefusal): RefusedToolResult {
  return { content: [{ type: 'text', text }], isError: true, _meta: { [REFUSAL]: refusal } }
}

export function refusalOfDecision({ source, status, retryAfterMs, policy }: NotAllowed): ToolRefusal {
  return source === 'none' ? { status: 'unavailable', retryAfterMs } : { status, retryAfterMs, policy }
}

/** The text for a model. */
export function textOf({ status, retryAfterMs }: ToolRefusal): string {
  const reason = {
    refused: 'its rate limit is reached',
    blocked: 'its caller is blocked for a time',
    impossible: 'this call costs more than its limit can ever allow',
    unavailable: 'the service is unavailable',
    invalid: 'the call has no valid key or cost',
  }[status]
  const advice =
    retryAfterMs !== null
      ? `Call it again in ${Math.ceil(retryAfterMs / 1_000)} s, not earlier.`
      : status === 'unavailable'
        ? 'Call it again later.'
        : 'Do not call it again with the same arguments.'
  return `The tool was not run: ${reason}. ${advice}`
}

/**
 * The time for which a server refuses a call, in milliseconds: that of a {@link RefusedToolResult}, or `retryAfterMs` in
 * the `data` of a JSON-RPC error.
 */
export function refusedForMs(answer: unknown): number | undefined {
  const { isError, _meta, data } = (answer ?? {}) as {
    readonly isError?: unknown
    readonly _meta?: { readonly [name: string]: unknown } | null
    readonly data?: unknown
  }
  const refusal = isError === true ? _meta?.[REFUSAL] : data
  const { retryAfterMs } = (refusal ?? {}) as { readonly retryAfterMs?: unknown }
  return typeof retryAfterMs === 'number' && retryAfterMs >= 0 ? retryAfterMs : undefined
}
