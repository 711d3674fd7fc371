/** Lengths of time, rates and counts in words. */

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

/** A length of time in its two largest units, rounded up: `3 min 12 s`. */
export function lengthInWords(exactMs: number): string {
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
  // 59 min 59.5 s are 1 h.
  if (first > 0 && rounded >= (UNITS[first - 1] as (typeof UNITS)[number])[1]) {
    return lengthInWords(rounded)
  }
  return `${Math.floor(rounded / length)} ${unit}${rest === 0 ? '' : ` ${rest} ${nextUnit}`}`
}

/** A rate by the shortest usual time in which it is a whole number of units: `100 per minute`. */
export function rateInWords(units: number, periodMs: number): string {
  for (const [name, length] of PER) {
    const times = length / periodMs
    const perLength = units * times
    if (Number.isSafeInteger(perLength) && perLength >= 1) {
      return `${number(perLength)} per ${name}`
    }
  }
  return `${number(units)} per ${lengthInWords(periodMs)}`
}

/** A number with its thousands apart. */
export function number(value: number): string {
  return value.toLocaleString('en-US')
}

/** A share of a whole, in per cent: never 0 of something, never 100 of less than all. */
export function shareInWords(part: number, whole: number): string {
  const share = (100 * part) / whole
  if (part > 0 && share < 1) {
    return 'below 1 %'
  }
  return `${part < whole ? Math.min(Math.round(share), 99) : Math.round(share)} %`
}

/** A time by the server's clock, to the second. */
export function timeInWords(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`
}
