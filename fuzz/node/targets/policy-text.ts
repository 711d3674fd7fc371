/**
 * Policies as text: an error is a usage error; a policy that parses prints, and its text parses to
 * the same policy. So do the registered texts of several policies.
 */
import { isDeepStrictEqual } from 'node:util'
import { CommandFailure } from '../../../ts/cli/failure.js'
import { formatPolicyCode, formatPolicyText, parsePolicyText } from '../../../ts/cli/policy-text.js'
import { registeredConfig } from '../../../ts/cli/redis/policies.js'

export const maxLength = 400

export const dictionary = [
  ...['gcra', 'fixedWindow', 'calendarWindow', 'slidingWindow', 'slidingCounter', 'slidingLog', 'slidingLogs'],
  ...['tokenBucket', 'leakyBucket', 'concurrency', ' limit=', ' period=', ' window=', ' burst=', ' refill=', ' leak='],
  ...[' capacity=', ' limits.a=', ' limits.b.window=', ' every=', ' per=', ' timeZone=', ' precision=', ' buckets='],
  ...[' layout=', ' countRefused=', ' initial=', ' debt=', ' refillMode=', ' expires=', 'interval', 'hash', 'list'],
  ...['1m', '1.5s', '10/1s', 'true', 'false', 'day', 'month', 'Asia/Kathmandu', '__proto__', 'constructor', 'toString'],
  ...['default: ', '; ', ' tier=a', ' lease=1s', 'global', '=', '.', '/', '1e3', '0.001ms', '9007199254740991'],
]

export const examples = [
  'gcra limit=100 period=1m burst=20 per=ip',
  'tokenBucket capacity=10 refill=5/1s initial=0 debt=3 refillMode=interval',
  'leakyBucket capacity=10 leak.units=5 leak.every=1s',
  'slidingLogs limits.short=2/1s limits.long=9/1m precision=1ms',
  'slidingWindow limit=9 window=1h buckets=4 layout=hash',
  'calendarWindow limit=9 every=day timeZone=Asia/Kathmandu',
  'concurrency limit=6 expires=2m',
  'default: gcra limit=5 period=1s; other: fixedWindow limit=3 window=1h',
]

export function run(input: Buffer): void {
  const text = input.toString('utf8')
  orUsageError(() => registeredConfig([text], 'api', 'block', true))
  orUsageError(() => {
    const policy = parsePolicyText(text, '--policy')
    const printed = formatPolicyText(policy)
    if (!isDeepStrictEqual(again(printed), policy)) {
      throw new Error(`it prints as ${printed}`)
    }
    if (!formatPolicyCode(policy).startsWith(`${policy.algorithm}(`)) {
      throw new Error(formatPolicyCode(policy))
    }
  })
}

/** The policy of a printed text, which is always valid. */
function again(text: string): unknown {
  try {
    return parsePolicyText(text, '--policy')
  } catch (error) {
    throw new Error(`the printed text is refused: ${text}`, { cause: error })
  }
}

function orUsageError(run: () => unknown): void {
  try {
    run()
  } catch (error) {
    if (!(error instanceof CommandFailure)) {
      throw error
    }
  }
}
