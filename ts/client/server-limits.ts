import { boundedDelay, httpDateOf, resetDelayOf, secondsOf } from './server-times.js'

export interface ServerLimit {
  /** The units that are left; `undefined` if the server does not say. */
  readonly remaining: number | undefined
  /** The time until it has units again, in milliseconds. */
  readonly delayMs: number
}

/** The headers of an answer, by lower-case names. */
export type HeaderMap = ReadonlyMap<string, string>

/** The name of a header with a reset. The groups of `x-ratelimit-reset-tokens` are `x-ratelimit` and `-tokens`. */
const RESET = /^(.*rate-?limit.*?)-reset(?:-after)?(-.+)?$/

/** The longest name of such a header: servers choose the names, and a pattern takes long for long ones. */
const MAX_NAME = 100

export function headerMapOf(headers: unknown): HeaderMap {
  const map = new Map<string, string>()
  for (const [name, value] of entriesOf(headers)) {
    const text = textOf(value)
    if (text !== undefined) {
      const key = String(name).toLowerCase()
      const before = map.get(key)
      map.set(key, before === undefined ? text : `${before}, ${text}`)
    }
  }
  return map
}

function entriesOf(headers: unknown): Iterable<readonly [unknown, unknown]> {
  if (typeof headers !== 'object' || headers === null) {
    return []
  }
  if (Array.isArray(headers)) {
    // Pairs; or names and values in turn, as the raw headers of Node.js are.
    return Array.isArray(headers[0])
      ? headers
      : headers.flatMap((name, index) => (index % 2 === 0 ? [[name, headers[index + 1]]] : []))
  }
  // `Headers` of any realm, a `Map`, or the object of a client.
  const { entries } = headers as { readonly entries?: unknown }
  return typeof entries === 'function' ? entries.call(headers) : Object.entries(headers)
}

function textOf(value: unknown): string | undefined {
  const single = Array.isArray(value) ? value.join(', ') : value
  return typeof single === 'string' ? single.trim() : typeof single === 'number' ? String(single) : undefined
}

/**
 * The time that a server asks callers to wait: `retry-after-ms` (OpenAI, Azure), `x-ms-retry-after-ms` (Azure), or
 * `Retry-After` (RFC 9110) in seconds or as a date.
 *
 * @param wallMs - Epoch milliseconds, if the answer has no `Date`.
 */
export function retryAfterOf(headers: HeaderMap, wallMs: number): number | undefined {
  const inMillis = secondsOf(headers.get('retry-after-ms'), 1) ?? secondsOf(headers.get('x-ms-retry-after-ms'), 1)
  const retryAfter = headers.get('retry-after')
  // A proxy may have added one of its own: the longest time counts.
  const all = retryAfter?.split(',').map((text) => secondsOf(text.trim()) ?? Number.NaN) ?? []
  const inSeconds = () => boundedDelay(Math.max(...all))
  const until = () => {
    const epochMs = httpDateOf(retryAfter)
    return epochMs === undefined ? undefined : epochMs - serverTimeOf(headers, wallMs)
  }
  return boundedDelay(inMillis) ?? inSeconds() ?? boundedDelay(until())
}

/** The limits of `RateLimit`, and of all pairs such as `X-RateLimit-Remaining` and `X-RateLimit-Reset`. */
export function serverLimitsOf(headers: HeaderMap, wallMs: number): readonly ServerLimit[] {
  const limits = listedLimits(headers.get('ratelimit'))
  for (const [name, text] of headers) {
    const [, before, after = ''] = (name.length > MAX_NAME ? null : RESET.exec(name)) ?? []
    const delayMs = before === undefined ? undefined : boundedDelay(resetDelayOf(text, serverTimeOf(headers, wallMs)))
    if (delayMs !== undefined) {
      const remaining = /^\d{1,15}(?!\d)/.exec(headers.get(`${before}-remaining${after}`) ?? '')?.[0]
      limits.push({ remaining: remaining === undefined ? undefined : Number(remaining), delayMs })
    }
  }
  return limits
}

/**
 * The time until all empty limits have units again. Limits with units left do not count. Limits without a `remaining`
 * count only if the server has refused the call (`isRefused`) and no limit is empty.
 */
export function delayOfLimits(limits: readonly ServerLimit[], isRefused: boolean): number | undefined {
  const empty = limits.filter(({ remaining }) => remaining === 0)
  const silent = isRefused ? limits.filter(({ remaining }) => remaining === undefined) : []
  const deciding = empty.length > 0 ? empty : silent
  return deciding.length === 0 ? undefined : Math.max(...deciding.map(({ delayMs }) => delayMs))
}

/** The time by the clock of the server, with which its other times are compared. */
function serverTimeOf(headers: HeaderMap, wallMs: number): number {
  return httpDateOf(headers.get('date')) ?? wallMs
}

/** `"name";r=0;t=30`, or `limit=10, remaining=0, reset=30` of earlier drafts. */
function listedLimits(text: string | undefined): ServerLimit[] {
  // The name of a limit may contain anything.
  const bare = text?.replace(/"(?:[^"\\]|\\.)*"/g, '""')
  const isEarly = bare?.includes('reset=') === true && !bare.includes('"')
  const items = (isEarly ? [bare] : bare?.split(',')) ?? []
  return items.flatMap((item) => {
    const remaining = /(?:^|[;,]\s*)(?:r|remaining)=(\d{1,15})(?!\d)/.exec(item)?.[1]
    const seconds = /(?:^|[;,]\s*)(?:t|reset)=(\d{1,15})(?!\d)/.exec(item)?.[1]
    const delayMs = boundedDelay(secondsOf(seconds))
    return delayMs === undefined
      ? []
      : [{ remaining: remaining === undefined ? undefined : Number(remaining), delayMs }]
  })
}
