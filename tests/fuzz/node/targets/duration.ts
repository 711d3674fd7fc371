/** Durations: an error is an `INVALID_OPTION`; a duration is a number of whole microseconds. */
import { TollgateError } from '../../../../ts/api/error.js'
import { microsOf, millisOf, wholeMillis } from '../../../../ts/input/duration.js'
import { shortDuration } from '../../../../ts/input/policy-text.js'

export const maxLength = 128

export const dictionary = [
  'ms',
  's',
  'm',
  'h',
  'd',
  'w',
  ' ',
  'minutes',
  'hours',
  'week',
  '.',
  '0.001',
  '1e9',
  '-',
  'Infinity',
]

export const examples = ['500ms', '1.5m', '10 minutes', '0.001ms', '5', '10 S', '1.1ms', '9007199254740991ms']

export function run(input: Buffer): void {
  const text = input.toString('utf8')
  orInvalid(() => {
    const millis = millisOf('INVALID_OPTION', 'period', text)
    if (!(millis > 0) || !Number.isInteger(microsOf(millis))) {
      throw new Error(`${millis} ms`)
    }
    const printed = shortDuration(millis)
    if (/^\d+(\.\d+)?[a-z]+$/.test(printed) && millisOf('INVALID_OPTION', 'period', printed) !== millis) {
      throw new Error(`${millis} ms print as ${printed}`)
    }
  })
  orInvalid(() => {
    const millis = wholeMillis('timeoutMs', text, 1, 3_600_000)
    if (!Number.isInteger(millis) || millis < 1 || millis > 3_600_000) {
      throw new Error(`${millis} ms`)
    }
  })
}

function orInvalid(run: () => void): void {
  try {
    run()
  } catch (error) {
    if (!(error instanceof TollgateError) || error.code !== 'INVALID_OPTION') {
      throw error
    }
  }
}
