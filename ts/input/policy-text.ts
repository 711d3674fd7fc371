import { MILLIS } from './duration.js'

/** Options whose text is an amount per duration, such as `10/1s`: the names of both parts. */
export const RATES: Readonly<Record<string, readonly [amount: string, length: string]>> = {
  refill: ['tokens', 'every'],
  leak: ['units', 'every'],
  limits: ['limit', 'window'],
}

/** Options that are durations. */
export const DURATIONS: readonly string[] = ['period', 'window', 'every', 'precision', 'ttl', 'lease']

const UNITS = Object.entries(MILLIS).reverse()

/** The text of a policy option: `limit=100`, `refill=10/1s`, `limits.day=1000/1d`. */
export function optionTexts(name: string, value: unknown): string[] {
  if (value === undefined) {
    return []
  }
  if (typeof value !== 'object' || value === null) {
    return [`${name}=${scalarText(name.slice(name.lastIndexOf('.') + 1), value)}`]
  }
  const names = RATES[name.split('.')[0] as string] as readonly [string, string]
  const { [names[0]]: amount, [names[1]]: length } = value as Record<string, unknown>
  if (amount !== undefined && length !== undefined) {
    return [`${name}=${String(amount)}/${scalarText(names[1], length)}`]
  }
  return Object.entries(value).flatMap(([inner, innerValue]) => optionTexts(`${name}.${inner}`, innerValue))
}

function scalarText(name: string, value: unknown): string {
  return typeof value === 'number' && DURATIONS.includes(name) ? shortDuration(value) : String(value)
}

/** A number of milliseconds as users write it: `10s`, `0.5ms`. */
export function shortDuration(millis: number): string {
  const [unit, unitMs] = UNITS.find(([, unitMs]) => millis % unitMs === 0) ?? ['ms', 1]
  return `${millis / unitMs}${unit}`
}
