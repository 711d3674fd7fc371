/** One-line policies, as the command line accepts them. */

import { formatPolicyText, parsePolicyText } from '../../ts/cli/policy-text.js'
import { calendarWindow, fixedWindow, gcra, leakyBucket, slidingLog, tokenBucket } from '../../ts/index.js'
import type { Policy } from '../../ts/policies/policy.js'

const POLICIES: readonly (readonly [string, Policy])[] = [
  ['gcra limit=100 period=1m burst=20', gcra({ limit: 100, period: '1m', burst: 20 })],
  ['  gcra   limit=100 period=60000 ', gcra({ limit: 100, period: '1m' })],
  ['gcra limit=5 period=1.5s per=ip', gcra({ limit: 5, period: 1500, per: 'ip' })],
  [
    'gcra limit=5 period=1s meter=tokens defaultCost=0',
    gcra({ limit: 5, period: '1s', meter: 'tokens', defaultCost: 0 }),
  ],
  ['fixedWindow limit=3 window=1h countRefused=true', fixedWindow({ limit: 3, window: '1h', countRefused: true })],
  [
    'calendarWindow limit=9 every=day timeZone=Asia/Shanghai',
    calendarWindow({ limit: 9, every: 'day', timeZone: 'Asia/Shanghai' }),
  ],
  ['tokenBucket capacity=10 refill=5/1s', tokenBucket({ capacity: 10, refill: { tokens: 5, every: '1s' } })],
  [
    'tokenBucket capacity=10 refill.tokens=5 refill.every=1s',
    tokenBucket({ capacity: 10, refill: { tokens: 5, every: '1s' } }),
  ],
  ['leakyBucket capacity=10 leak=5/1s', leakyBucket({ capacity: 10, leak: { units: 5, every: '1s' } })],
  [
    'slidingLog limits.short=2/1s limits.long=9/1m',
    slidingLog({ limits: { short: { limit: 2, window: '1s' }, long: { limit: 9, window: '1m' } } }),
  ],
]

test.each(POLICIES)('%s equals the policy from its factory', (text, policy) => {
  expect(parsePolicyText(text, '--policy')).toEqual(policy)
})

test.each(POLICIES)('%s survives formatting and parsing', (_text, policy) => {
  expect(parsePolicyText(formatPolicyText(policy), '--policy')).toEqual(policy)
})

test.each([
  ['gcra period=60000 limit=100 burst=100', 'gcra limit=100 period=1m burst=100'],
  ['tokenBucket capacity=10 refill.tokens=5 refill.every=90000 debt=0', 'tokenBucket capacity=10 refill=5/90s'],
  ['leakyBucket capacity=10 leak=5/1500', 'leakyBucket capacity=10 leak=5/1500ms'],
  ['slidingLog limits.a=1/1s limits.b=2/7d', 'slidingLog limits.a=1/1s limits.b=2/1w'],
])('%s is formatted as %s: lengths with units, and defaults left out', (text, short) => {
  expect(formatPolicyText(parsePolicyText(text, '--policy'))).toBe(short)
})

test.each([
  ['', '--policy must be an algorithm and its numbers'],
  ['limit=3', '--policy must be an algorithm and its numbers'],
  ['gcar limit=3 period=1s', /^--policy: algorithm must be one of .*"gcra", got "gcar"$/],
  ['gcra limit 3', '--policy: "limit" must be name=value'],
  ['gcra limit=3', '--policy: gcra: period must be a duration'],
  ['gcra limit=0 period=1s', '--policy: gcra: limit must be a whole number from 1'],
  [
    'gcra limit=3 period=1s brust=3',
    '--policy: gcra has no option "brust"; did you mean "burst"? It takes limit, period, burst, per',
  ],
  ['gcra limit=3 limit=4 period=1s', '--policy: limit is given twice'],
  ['leakyBucket capacity=3 leak=1/1s leak.units.of=2', '--policy: leak.units.of has a value already'],
  ['gcra limits.__proto__=3/1s', '--policy: "limits.__proto__=3/1s" must be name=value'],
])('%j is refused with the rule that it breaks', (text, complaint) => {
  expect(() => parsePolicyText(text, '--policy')).toThrow(complaint)
})
