/**
 * Policies as text: an error is a usage error; a policy that parses prints, and its text parses to
 * the same policy. So do the registered texts of several policies.
 */
import { isDeepStrictEqual } from 'node:util'
import { SAMPLES } from '../../../__tests__/policies/samples.js'
import { CommandFailure } from '../../../ts/cli/failure.js'
import { formatPolicyCode, formatPolicyText, parsePolicyText } from '../../../ts/cli/policy-text.js'
import { registeredConfig } from '../../../ts/cli/redis/registry.js'
import { ALGORITHMS, type Policy } from '../../../ts/policies/policy.js'

export const maxLength = 400

export const dictionary = [
  ...Object.keys(ALGORITHMS),
  ...[
    ' limit=',
    ' period=',
    ' window=',
    ' burst=',
    ' refill=',
    ' leak=',
    ' capacity=',
    ' limits.a=',
    ' limits.b.window=',
  ],
  ...[
    ' every=',
    ' per=',
    ' timeZone=',
    ' precision=',
    ' buckets=',
    ' layout=',
    ' countRefused=',
    ' initial=',
    ' debt=',
  ],
  ...[' refillMode=', ' ttl=', 'interval', 'hash', 'list', '1m', '1.5s', '10/1s', 'true', 'false', 'day', 'month'],
  ...['Asia/Kathmandu', '__proto__', 'constructor', 'toString', 'default: ', '; ', ' tier=a', ' lease=1s', 'global'],
  ...['=', '.', '/', '1e3', '0.001ms', '9007199254740991'],
]

const texts = Object.values(SAMPLES).map((policy) => formatPolicyText(policy as Policy))

export const examples = [...texts, ...texts.map((text) => `default: ${text}`), `default: ${texts[0]}; b: ${texts[1]}`]

export function run(input: Buffer): void {
  const text = input.toString('utf8')
  orUsageError(() => registeredConfig([text], 'api', 'block', true))
  orUsageError(() => {
    const policy = parsePolicyText(text, '--policy')
    const printed = formatPolicyText(policy)
    // Durations of 10^21 ms and more have an exponent, which no duration may have. No limiter accepts them.
    if (printed.includes('e+')) {
      return
    }
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
