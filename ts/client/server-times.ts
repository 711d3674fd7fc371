/** The times that servers write into headers, as delays in milliseconds. */

/** The longest time that a server can ask for: a day. A longer one is probably wrong. */
const MAX_DELAY_MS = 86_400_000

const UNITS: { readonly [unit: string]: number } = {
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1_000,
  ms: 1,
  us: 1e-3,
  µs: 1e-3,
  ns: 1e-6,
}

const DURATION = /^(?:\d{1,15}(?:\.\d{1,9})?(?:ms|us|µs|ns|[dhms]))+$/
const DURATION_PART = /(\d+(?:\.\d+)?)(ms|us|µs|ns|[dhms])/g

/** RFC 3339, which requires a time zone. */
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/

/** The three forms of a date in HTTP (RFC 9110, 5.6.7). All are in GMT; the last does not say so. */
const HTTP_DATES = [
  /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/,
  /^[A-Z][a-z]{5,8}, \d\d-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/,
]

/** Rounds a delay up to whole milliseconds, at most a day; `undefined` unless it is above 0. */
export function boundedDelay(millis: number | undefined): number | undefined {
  return millis !== undefined && millis > 0 ? Math.min(Math.ceil(millis), MAX_DELAY_MS) : undefined
}

/** A number of seconds, or of another unit. */
export function secondsOf(text: string | undefined, millis = 1_000): number | undefined {
  return text !== undefined && /^\d{1,100}(\.\d+)?$/.test(text) ? Number(text) * millis : undefined
}

/** The epoch milliseconds of a date in one of HTTP's three forms. */
export function httpDateOf(text: string | undefined): number | undefined {
  if (text === undefined || !HTTP_DATES.some((form) => form.test(text))) {
    return undefined
  }
  const epochMs = Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`)
  return Number.isNaN(epochMs) ? undefined : epochMs
}

/**
 * The delay until a reset: seconds; epoch seconds or milliseconds; a duration in Go's notation, such as `6m0s`; or a
 * date of RFC 3339 or of HTTP. `serverMs`: epoch milliseconds by the server's clock.
 */
export function resetDelayOf(text: string, serverMs: number): number | undefined {
  const seconds = secondsOf(text, 1)
  if (seconds !== undefined) {
    // As seconds from now, a billion is 31 years. Larger numbers are epoch seconds, milliseconds and so on.
    let delayOrEpochMs = seconds * 1_000
    while (delayOrEpochMs >= 1e15) {
      delayOrEpochMs /= 1_000
    }
    return seconds < 1e9 ? delayOrEpochMs : delayOrEpochMs - serverMs
  }
  if (DURATION.test(text)) {
    const parts = [...text.matchAll(DURATION_PART)]
    return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit as string] as number), 0)
  }
  const until = RFC_3339.test(text) ? Date.parse(text.toUpperCase().replace(' ', 'T')) : httpDateOf(text)
  return until === undefined || Number.isNaN(until) ? undefined : until - serverMs
}
