/** The next larger or smaller value of a field, for its two buttons and the arrow keys. */
import type { FieldLeaf } from './fields.js'

/** The first digits of the numbers that steps lead to. */
const DIGITS = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9] as const

/** The durations that steps lead to. */
const DURATIONS = (
  '1ms 2ms 5ms 10ms 20ms 50ms 100ms 200ms 500ms 1s 2s 5s 10s 15s 20s 30s 1m 2m 5m 10m 15m 30m ' +
  '1h 2h 6h 12h 1d 2d 1w 2w 30d'
).split(' ')

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 }

/** Whether a field has steps. */
export function hasSteps({ kind }: Pick<FieldLeaf, 'kind'>): boolean {
  return kind === 'whole' || kind === 'number' || kind === 'duration'
}

/** The text after a step up, 1, or down, -1. A text that cannot be read is unchanged. */
export function stepped({ kind, hint }: Pick<FieldLeaf, 'kind' | 'hint'>, text: string, direction: 1 | -1): string {
  if (kind === 'duration') {
    return steppedDuration(text, direction)
  }
  const typed = text.trim() === '' ? numberFrom(hint ?? '') : numberFrom(text)
  return typed === undefined ? text || '1' : String(steppedNumber(typed, direction, kind === 'whole'))
}

function steppedNumber(number: number, direction: 1 | -1, isWhole: boolean): number {
  const candidates = ladderAround(number).filter((one) => !isWhole || Number.isSafeInteger(one))
  const next = direction > 0 ? candidates.find((one) => one > number) : candidates.findLast((one) => one < number)
  return next ?? number
}

/** All steps from two powers of ten below a number to one above. */
function ladderAround(number: number): readonly number[] {
  const power = number <= 0 ? 0 : Math.floor(Math.log10(number))
  const powers = [power - 1, power, power + 1]
  const ladder = powers.flatMap((one) => DIGITS.map((digit) => Number((digit * 10 ** one).toPrecision(2))))
  return number < 1 ? [0, ...ladder] : ladder
}

function steppedDuration(text: string, direction: 1 | -1): string {
  const millis = millisOf(text)
  if (millis === undefined) {
    return text || '1s'
  }
  const next =
    direction > 0
      ? DURATIONS.find((one) => (millisOf(one) ?? 0) > millis)
      : DURATIONS.findLast((one) => (millisOf(one) ?? 0) < millis)
  return next ?? text
}

function millisOf(text: string): number | undefined {
  const [, number, unit = 'ms'] = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?\s*$/.exec(text) ?? []
  return number === undefined ? undefined : Number(number) * (UNITS[unit] as number)
}

function numberFrom(text: string): number | undefined {
  return /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : undefined
}
