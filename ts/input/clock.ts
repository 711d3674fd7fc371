import type { TimerClock } from '../platform/timer-clock.js'
import { invalid } from './options.js'

const METHODS = ['now', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const

/** Checks a clock of the user. @throws {TollgateError} `INVALID_OPTION` */
export function clockOf(option: string, value: unknown): TimerClock | (() => number) | undefined {
  const clock = (value ?? {}) as Partial<TimerClock>
  if (
    value === undefined ||
    typeof value === 'function' ||
    METHODS.every((name) => typeof clock[name] === 'function')
  ) {
    return value as TimerClock | (() => number) | undefined
  }
  const rule = 'must be a function that returns milliseconds, or a TestClock of tollgate/testing'
  throw invalid('INVALID_OPTION', option, rule, value)
}
