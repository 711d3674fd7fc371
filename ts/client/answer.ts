/** The result of one attempt of a call. */
export type AttemptResult =
  | { readonly isError: false; readonly value: unknown }
  | { readonly isError: true; readonly error: unknown }

/** The HTTP answer in the result of an attempt. */
export interface Answer {
  /** `undefined` if there was no answer, or the value is not one. */
  readonly status: number | undefined
  /** The time for which the server asks callers to wait, in milliseconds, if it names one. */
  readonly delayMs: number | undefined
}

/** The longest time that a server can ask for: a day. A longer one is probably wrong. */
const MAX_DELAY_MS = 86_400_000

/** Reads one header; `undefined` if it is missing. */
type Headers = (name: string) => string | undefined

/**
 * Finds the HTTP answer in a result: a `Response`, or an error of an HTTP client, which has `status`
 * or `statusCode`, and `headers`, itself or in its `response`.
 *
 * @param wallMs - Epoch milliseconds, for dates.
 */
export function answerOf(result: AttemptResult, wallMs: number): Answer {
  const source: unknown = result.isError ? result.error : result.value
  for (const candidate of [source, fieldOf(source, 'response')]) {
    const status = fieldOf(candidate, 'status') ?? fieldOf(candidate, 'statusCode')
    // A value that is not an answer may have a status of its own.
    if (typeof status === 'number' && (result.isError || fieldOf(candidate, 'headers') !== undefined)) {
      return { status, delayMs: delayOf(headersOf(fieldOf(candidate, 'headers')), wallMs) }
    }
  }
  return { status: undefined, delayMs: undefined }
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

/** Headers with a method `get`, as of `fetch`, or an object, as of Node.js. */
function headersOf(value: unknown): Headers {
  const get = fieldOf(value, 'get')
  if (typeof get === 'function') {
    return (name) => textOf(get.call(value, name))
  }
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : []
  const byName = new Map(entries.map(([name, text]) => [name.toLowerCase(), text]))
  return (name) => textOf(byName.get(name))
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value.trim() : typeof value === 'number' ? String(value) : undefined
}

/**
 * The time for which the server asks callers to wait. In this order: `retry-after-ms`, of Azure;
 * `Retry-After`, by RFC 9110; `RateLimit`, by draft-ietf-httpapi-ratelimit-headers; and
 * `RateLimit-Reset` and `X-RateLimit-Reset`, of earlier drafts and of many servers.
 */
function delayOf(header: Headers, wallMs: number): number | undefined {
  const delays = [
    () => secondsOf(header('retry-after-ms'), 1),
    () => retryAfterOf(header, wallMs),
    () => rateLimitOf(header('ratelimit')),
    () => resetOf(header('ratelimit-reset'), wallMs),
    () => resetOf(header('x-ratelimit-reset'), wallMs),
  ]
  for (const read of delays) {
    const delayMs = read()
    if (delayMs !== undefined && delayMs > 0) {
      return Math.min(Math.ceil(delayMs), MAX_DELAY_MS)
    }
  }
  return undefined
}

function secondsOf(text: string | undefined, millis = 1_000): number | undefined {
  return text !== undefined && /^\d{1,15}(\.\d+)?$/.test(text) ? Number(text) * millis : undefined
}

/** Seconds or a date. The server's `Date` is the time by the same clock. */
function retryAfterOf(header: Headers, wallMs: number): number | undefined {
  const text = header('retry-after')
  if (text === undefined) {
    return undefined
  }
  const delayMs = secondsOf(text)
  if (delayMs !== undefined) {
    return delayMs
  }
  const sentAt = Date.parse(header('date') ?? '')
  const until = Date.parse(text) - (Number.isNaN(sentAt) ? wallMs : sentAt)
  return Number.isNaN(until) ? undefined : until
}

/**
 * `"name";r=0;t=30`, or `limit=10, remaining=0, reset=30` of earlier drafts. Of several policies the
 * last one to have units again decides.
 */
function rateLimitOf(text: string | undefined): number | undefined {
  let delayMs: number | undefined
  const early = text?.includes('reset=') === true && !text.includes(';')
  for (const item of (early ? [text] : text?.split(',')) ?? []) {
    const remaining = /(?:^|[;,]\s*)(?:r|remaining)=(\d{1,15})(?!\d)/.exec(item)?.[1]
    const seconds = /(?:^|[;,]\s*)(?:t|reset)=(\d{1,15})(?!\d)/.exec(item)?.[1]
    // With units left under this policy, another one has refused the call.
    if (seconds !== undefined && Number(remaining ?? 0) === 0) {
      delayMs = Math.max(delayMs ?? 0, Number(seconds) * 1_000)
    }
  }
  return delayMs
}

/** Seconds from now, or a time in epoch seconds or milliseconds, as servers differ. */
function resetOf(text: string | undefined, wallMs: number): number | undefined {
  const seconds = secondsOf(text, 1)
  if (seconds === undefined || seconds < 1e9) {
    return seconds === undefined ? undefined : seconds * 1_000
  }
  return seconds < 1e12 ? seconds * 1_000 - wallMs : seconds - wallMs
}
