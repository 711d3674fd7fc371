/** Formats durations, rates, counts and times. */

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const

const PER = [
  ['second', 1_000],
  ['minute', 60_000],
  ['hour', 3_600_000],
  ['day', 86_400_000],
  ['week', 604_800_000],
] as const

/** A duration in its two largest units, rounded up: `3 min 12 s`. */
export function formatDuration(exactMs: number): string {
  const ms = Math.ceil(exactMs)
  if (ms < 1_000) {
    return `${ms} ms`
  }
  if (ms < 10_000) {
    return `${Math.ceil(ms / 100) / 10} s`
  }
  const first = UNITS.findIndex(([, length]) => ms >= length)
  const [unit, length] = UNITS[first] as (typeof UNITS)[number]
  const [nextUnit, next] = UNITS[first + 1] ?? ['', length]
  const rounded = Math.ceil(ms / next) * next
  const rest = Math.round((rounded % length) / next)
  // 59 min 59.5 s is 1 h.
  if (first > 0 && rounded >= (UNITS[first - 1] as (typeof UNITS)[number])[1]) {
    return formatDuration(rounded)
  }
  return `${Math.floor(rounded / length)} ${unit}${rest === 0 ? '' : ` ${rest} ${nextUnit}`}`
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
  return `${formatNumber(units)} per ${formatDuration(periodMs)}`
}

/** A number with thousands separators. */
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

/** A time of the server's clock, to the second. */
export function formatTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`
}
