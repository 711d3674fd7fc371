/** Formats numbers and durations for the page. */

/** `1,234`. */
export function count(number: number): string {
  return number.toLocaleString('en')
}

/** `call` or `calls`. */
export function counted(number: number, one: string): string {
  return `${count(number)} ${one}${number === 1 ? '' : 's'}`
}

const STEPS = [
  ['d', 86_400_000_000],
  ['h', 3_600_000_000],
  ['min', 60_000_000],
  ['s', 1_000_000],
  ['ms', 1_000],
] as const

/** Microseconds in the largest unit that fits: `10 s`, `1.5 h`. */
export function span(us: number): string {
  const [unit, size] = STEPS.find(([, least]) => us >= least) ?? ['ms', 1_000]
  return `${Number((us / size).toFixed(2))} ${unit}`
}

/** The unit for the times of a trace of this length, and its length in microseconds. */
export function axisUnit(lengthUs: number): readonly [unit: string, us: number] {
  const unit = STEPS.find(([, least]) => lengthUs > 3 * least) ?? STEPS[4]
  return [unit[0], unit[1]]
}

/** A time in a trace of this length: `12.5 s`. */
export function time(us: number, lengthUs: number): string {
  const [unit, size] = axisUnit(lengthUs)
  return `${Number((us / size).toFixed(2))} ${unit}`
}

/** `98 %`, and never 100 % for less than all. */
export function share(part: number, whole: number): string {
  const percent = (100 * part) / whole
  return `${percent > 99 && percent < 100 ? '99' : percent.toFixed(percent > 0 && percent < 10 ? 1 : 0)} %`
}
