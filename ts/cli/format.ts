/** Formats durations, rates, counts and times. */

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
] as const

const PER = [
  ['second', 1_000],
  ['minute', 60_000],
  ['hour', 3_600_000],
  ['day', 86_400_000],
  ['week', 604_800_000],
] as const

/** A time, rounded up: below a second to a millisecond, below a minute to a tenth of a second, else to a second. */
export function formatDuration(exactMs: number): string {
  const ms = Math.ceil(exactMs)
  const step = ms < 1_000 ? 1 : ms < 60_000 ? 100 : 1_000
  return formatLength(Math.ceil(ms / step) * step)
}

/** A length of time in all its units, exactly: `1 d 9 s`, `1.5 ms`. */
export function formatLength(ms: number): string {
  // Times are whole microseconds.
  let us = Math.round(ms * 1_000)
  if (us < 1_000_000) {
    return `${us / 1_000} ms`
  }
  const parts: string[] = []
  for (const [unit, unitMs] of UNITS) {
    const count = Math.floor(us / (unitMs * 1_000))
    if (count > 0) {
      parts.push(`${count} ${unit}`)
    }
    us -= count * unitMs * 1_000
  }
  return [...parts, ...(us === 0 ? [] : [`${us / 1_000_000} s`])].join(' ')
}

/** A rate over the shortest common period that makes it a whole number: `100 per minute`. */
export function formatRate(units: number, periodMs: number): string {
  for (const [name, length] of PER) {
    const times = length / periodMs
    const perLength = units * times
    if (Number.isSafeInteger(perLength) && perLength >= 1) {
      return `${formatNumber(perLength)} per ${name}`
    }
  }
  return `${formatNumber(units)} per ${formatLength(periodMs)}`
}

export function formatNumber(value: number): string {
  return value.toLocaleString('en-US')
}

/** A share in percent: never 0 % for more than nothing, and never 100 % for less than all. */
export function formatShare(part: number, whole: number): string {
  const share = (100 * part) / whole
  if (part > 0 && share < 1) {
    return 'below 1 %'
  }
  return `${part < whole ? Math.min(Math.round(share), 99) : Math.round(share)} %`
}

/** 2026-01-31 23:59:59, in UTC. */
export function shownTime(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ')
}

/** A time of the server's clock, to the second. */
export function formatTime(ms: number): string {
  return `${shownTime(ms)} UTC`
}
