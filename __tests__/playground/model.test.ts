/** The playground's own computations: traffic, bounds, worst times, addresses and code. */
import fc from 'fast-check'
import {
  ALGORITHM_NAMES,
  ALGORITHMS,
  type AlgorithmName,
  functionOf,
} from '../../examples/playground/model/algorithms.js'
import { codeOf } from '../../examples/playground/model/code.js'
import { limitsText, typedLimits } from '../../examples/playground/model/fields.js'
import { inputErrorOf } from '../../examples/playground/model/input-error.js'
import { type Law, lawsOf } from '../../examples/playground/model/laws.js'
import { callsFromText } from '../../examples/playground/model/pasted.js'
import { type RunResult, run } from '../../examples/playground/model/run.js'
import { DEFAULT_STATE, hashOf, policyOf, stateOf, trafficOf } from '../../examples/playground/model/state.js'
import { checkMeter, type Traffic } from '../../examples/playground/model/trace.js'
import { SHAPE_NAMES, SHAPES } from '../../examples/playground/model/traffic.js'
import { type AdmittedCall, rollingOf, worstSpanOf } from '../../examples/playground/model/windows.js'
import type { Policy } from '../../ts/index.js'
import { policyOf as checked } from '../../ts/policies/policy.js'
import { cases } from '../cases.js'
import { complaintsAbout } from '../docs/compile.js'
import { nativePolicy } from './addon.js'

const START = Date.UTC(2026, 0, 5)

/** Numbers of each algorithm that differ from the defaults of its form. */
const POLICIES: readonly (readonly [AlgorithmName, Record<string, string>])[] = [
  ...ALGORITHM_NAMES.map((name) => [name, {}] as const),
  ['gcra', { limit: '7', period: '1s', burst: '3' }],
  ['tokenBucket', { capacity: '9', 'refill.tokens': '4', 'refill.every': '3s', refillMode: 'interval', debt: '2' }],
  ['tokenBucket', { capacity: '10', 'refill.tokens': '3', 'refill.every': '700ms', initial: '2', debt: '5' }],
  ['slidingWindow', { limit: '11', window: '2500ms', buckets: '3', layout: 'hash' }],
  ['slidingLog', { limit: '6', window: '1500ms', countRefused: 'true' }],
  ['fixedWindow', { limit: '6', window: '1500ms', countRefused: 'true' }],
  ['gcra', { limit: '700', period: '1s', burst: '300', meter: 'tokens' }],
  ['slidingLog-limits', { meter: 'tokens' }],
  ['fixedWindow', { meter: 'calls' }],
]

async function outcomeOf(policy: Policy, traffic: Traffic): Promise<RunResult> {
  const [compared] = lawsOf(policy) as [Law]
  const watched = traffic.calls[0]?.key ?? 'client-1'
  return run(policy, traffic, { columns: 60, watched, compared, pause: () => undefined })
}

describe('a law’s bound', () => {
  test.each(POLICIES)('of %s holds for any traffic: %j', async (name, values) => {
    const policy = nativePolicy(name, values)
    const gaps = fc.oneof(fc.integer({ min: 0, max: 400_000 }), fc.constantFrom(0, 1, 1_500_000, 10_000_000))
    const call = fc.record({ gap: gaps, cost: fc.integer({ min: 1, max: 3 }), key: fc.constantFrom('a', 'b') })
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 200 }), async (steps) => {
        let at = 0
        const calls = steps.map(({ gap, cost, key }) => {
          at += gap
          return { at, cost, key, units: { tokens: 3 - cost } }
        })
        const { laws, admitted, refused } = await outcomeOf(policy, { calls, startMs: START, lengthUs: at + 1 })
        expect(admitted + refused).toBe(calls.length)
        expect(laws.filter(({ worst, most: max }) => worst.units > max)).toEqual([])
      }),
      cases(40),
    )
  })

  test.each([
    ['fixedWindow', 39],
    ['slidingWindow', 20],
    ['slidingLog', 20],
    ['gcra', 40],
    ['leakyBucket', 40],
    ['tokenBucket', 40],
  ] as const)('of %s is reached by the traffic that it is the worst for: %i', async (name, max) => {
    const flood = Array.from({ length: 60_001 }, (_, at) => ({ at: at * 500, cost: 1, key: 'a' }))
    const edge = SHAPES.edge.make(trafficOf('edge').values)
    const traffic = name === 'fixedWindow' ? edge : { calls: flood, startMs: START, lengthUs: 30e6 }
    const { laws } = await outcomeOf(nativePolicy(name), traffic)
    expect(laws.map((law) => [law.worst.units, law.most])).toEqual([[max, max]])
  })

  test.each(POLICIES)('of %s is at least what its numbers ask for: %j', (name, values) => {
    const laws = lawsOf(nativePolicy(name, values))
    expect(laws.filter(({ asked, most }) => asked < 1 || asked > most)).toEqual([])
  })

  test('has the length of time of the policy', () => {
    const spans = (policy: Policy) => lawsOf(policy).map(({ spanUs, most: max }) => [spanUs / 1_000, max])
    expect(spans(nativePolicy('gcra', { limit: '100', period: '1m', burst: '20' }))).toEqual([[60_000, 120]])
    const every = { capacity: '10', 'refill.tokens': '4', 'refill.every': '3s', refillMode: 'interval' }
    expect(spans(nativePolicy('tokenBucket', every))).toEqual([[9_000, 10 + 4 * (3 + 1)]])
    const day = { limit: '5', every: 'day', timeZone: 'Europe/Berlin' }
    expect(spans(nativePolicy('calendarWindow', day))).toEqual([[23 * 3_600_000, 10]])
  })
})

describe('the worst time', () => {
  const admitted = fc
    .array(fc.record({ at: fc.integer({ min: 0, max: 400 }), units: fc.integer({ min: 1, max: 4 }) }), {
      maxLength: 60,
    })
    .map((all) => all.toSorted((one, other) => one.at - other.at))
  const law = fc.record({
    spanUs: fc.integer({ min: 1, max: 90 }),
    closed: fc.boolean(),
    most: fc.constant(1),
    asked: fc.constant(1),
  })

  test('equals the result of trying all times', () => {
    fc.assert(
      fc.property(admitted, law, (all, law) => {
        const starts = Array.from({ length: 401 }, (_, at) => at)
        const max = Math.max(...starts.map((from) => unitsFrom(all, law, from)))
        const worst = worstSpanOf(all, law)
        expect(worst.units).toBe(max)
        expect(rollingOf(all, law, 10, 40)).toHaveLength(10)
        expect(Math.max(...rollingOf(all, law, 10, 40))).toBe(max)
      }),
      cases(500),
    )
  })

  function unitsFrom(all: readonly AdmittedCall[], { spanUs, closed }: Law, from: number): number {
    const end = from + spanUs
    const within = all.filter(({ at }) => at >= from && (closed ? at <= end : at < end))
    return within.reduce((sum, { units }) => sum + units, 0)
  }
})

describe('an address', () => {
  test('encodes the whole state', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 20 })
    const policies = fc.array(
      fc.constantFrom(...ALGORITHM_NAMES).chain((name) => {
        const free = ALGORITHMS[name].leaves.filter(({ choices }) => choices === undefined)
        const values = fc.record(Object.fromEntries(free.map(({ path }) => [path, text])))
        return values.map((values) => policyOf(name, values))
      }),
      { minLength: 1, maxLength: 3 },
    )
    const traffic = text.map((times) => trafficOf('pasted', { times }))
    fc.assert(
      fc.property(policies, traffic, (policies, traffic) => {
        const state = { policies, traffic, watch: 'a & b=c+d' }
        expect(stateOf(`#${hashOf(state)}`)).toEqual(state)
      }),
      cases(100),
    )
  })

  test('may be any text', () => {
    const parts = fc.constantFrom('policy=', 'traffic=', 'gcra', 'limit=', '+', '&', '%', '=', '%zz', '__proto__', '#')
    const garbage = fc.array(fc.oneof(parts, fc.string({ unit: 'binary' })), { maxLength: 12 })
    fc.assert(
      fc.property(garbage, (words) => {
        const { policies, traffic } = stateOf(words.join(''))
        expect(policies.length >= 1 && policies.length <= 3).toBe(true)
        expect(Object.keys(policies[0]?.values ?? {})).toEqual(
          ALGORITHMS[policies[0]?.algorithm ?? 'gcra'].leaves.map(({ path }) => path),
        )
        expect(Object.keys(traffic.values)).toEqual(SHAPES[traffic.shape].leaves.map(({ path }) => path))
      }),
      cases(2_000),
    )
    expect(stateOf('')).toEqual(DEFAULT_STATE)
    expect(stateOf('policy=constructor&policy=nothing&traffic=toString')).toEqual(DEFAULT_STATE)
    expect(stateOf(`policy=gcra&policy=gcra&policy=gcra&policy=gcra`).policies).toHaveLength(3)
  })

  test('is readable', () => {
    const state = { traffic: trafficOf('steady', { rate: '8' }), policies: [policyOf('gcra', { burst: '5' })] }
    expect(hashOf(state)).toBe('traffic=steady+rate=8+length=60s+cost=1+seed=1&policy=gcra+limit=20+period=10s+burst=5')
  })
})

describe('traffic', () => {
  test.each(SHAPE_NAMES)('is deterministic, ordered and within its length: %s', (name) => {
    const { values } = trafficOf(name, { spacing: 'random' })
    const traffic = SHAPES[name].make(values)
    expect(SHAPES[name].make(values)).toEqual(traffic)
    expect(traffic.calls.length).toBeGreaterThan(5)
    const times = traffic.calls.map(({ at }) => at)
    expect(times).toEqual(times.toSorted((one, other) => one - other))
    expect(times.every((at) => Number.isSafeInteger(at) && at >= 0 && at <= traffic.lengthUs)).toBe(true)
  })

  test('random traffic has the chosen rate, and depends on the seed', () => {
    const make = (seed: string) =>
      SHAPES.steady.make(trafficOf('steady', { spacing: 'random', rate: '50', length: '100s', seed }).values)
    expect(Math.abs(make('1').calls.length - 5_000)).toBeLessThan(300)
    expect(make('2').calls).not.toEqual(make('1').calls)
  })

  test('is read from times in any format, in any order', () => {
    const text = '# seconds\n10\n0.25 ann\r\n\n1 bob 5\n'
    expect(callsFromText(text).calls).toEqual(
      [
        { at: 250_000, key: 'ann', cost: 1 },
        { at: 1_000_000, key: 'bob', cost: 5 },
        { at: 10_000_000, key: 'client-1', cost: 1 },
      ].map((call) => ({ ...call, units: {} })),
    )
    expect(callsFromText('1 ann 2 tokens=500,cents=3\n2 tokens=0').calls).toMatchObject([
      { key: 'ann', cost: 2, units: { tokens: 500, cents: 3 } },
      { key: 'client-1', cost: 1, units: { tokens: 0 } },
    ])
    const clock = callsFromText('2026-01-05T00:00:01.5Z\n1767571200\n1767571200250,ann,2\n2026-01-05T01:00:00+01:00')
    expect(clock.startMs).toBe(START)
    expect(clock.calls.map(({ at }) => at)).toEqual([0, 0, 250_000, 1_500_000])
  })

  test.each([
    ['', 'times must have a line for each call, got none'],
    ['1\nsoon', 'times: line 2 must start with seconds, Unix time or an ISO 8601 time, got "soon"'],
    ['1 ann 0', 'times: line 1 must have a cost from 1, a whole number, got "0"'],
    ['1 ann 2 more', 'times: line 1 must be a time, a key, a cost and units of meters, got "1 ann 2 more"'],
    ['1\n2 tokens=many', 'times: line 2 must be meters with whole numbers, such as tokens=500, got "tokens=many"'],
    ['1\n1767571200', 'times must all be absolute, or all be seconds from the start'],
    ['192.0.2.1 - - [05/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1', 'npx tollgate-cli simulate access.log'],
    ['{"time":"2026-01-05T00:00:00Z","ip":"192.0.2.1"}', 'times: line 1 is a line of an access log'],
  ])('invalid traffic is refused: %j', (text, message) => {
    expect(() => callsFromText(text)).toThrow(message)
  })

  test('too many calls are refused before they are generated', () => {
    const values = { ...trafficOf('steady').values, rate: '999999', length: '400d' }
    expect(() => SHAPES.steady.make(values)).toThrow('traffic must be at most 100,000 calls')
    const bursts = { ...trafficOf('bursts').values, calls: '1000000' }
    expect(() => SHAPES.bursts.make(bursts)).toThrow('traffic must be at most 100,000 calls')
    expect(() => SHAPES.edge.make({ ...trafficOf('edge').values, window: '' })).toThrow(
      "window must be a duration from '1ms' to '400d', got \"\"",
    )
  })
})

describe('a meter', () => {
  const traffic = SHAPES.steady.make(trafficOf('steady', { rate: '10', units: 'tokens=500 cents=0' }).values)

  test('counts the units of the traffic', async () => {
    const tokens = await outcomeOf(
      nativePolicy('fixedWindow', { limit: '1000', window: '1m', meter: 'tokens' }),
      traffic,
    )
    expect(tokens).toMatchObject({ meter: 'tokens', admitted: 2, full: 1_000 })
    expect(tokens.laws.map(({ worst }) => worst.units)).toEqual([1_000])
    const cents = await outcomeOf(nativePolicy('gcra', { limit: '1', meter: 'cents' }), traffic)
    expect(cents).toMatchObject({ admitted: traffic.calls.length, refused: 0 })
    const calls = await outcomeOf(nativePolicy('fixedWindow', { limit: '7', window: '1h', meter: 'calls' }), traffic)
    expect(calls).toMatchObject({ meter: undefined, admitted: 7 })
  })

  test('is one that each call has units of', () => {
    const check =
      (meter: string, calls = traffic) =>
      () =>
        checkMeter(nativePolicy('gcra', { meter }), calls)
    expect(check('tokens')).not.toThrow()
    expect(check('calls')).not.toThrow()
    const message = 'meter must be one that each call has units of (calls, tokens, cents), got "token"'
    expect(check('token')).toThrow(message)
    expect(check('toString')).toThrow('meter must be one')
    expect(check('tokens', callsFromText('1 tokens=5\n2'))).toThrow('each call has units of (calls), got "tokens"')
    expect(inputErrorOf(message, 'gcra: ', ALGORITHMS.gcra.leaves)).toMatchObject({ path: 'meter' })
  })

  test('is in the code, with the units of a call', () => {
    const code = codeOf(policyOf('gcra', { meter: 'tokens' }), { cost: 1, units: { tokens: 500 } })
    expect(code).toContain("meter: 'tokens'")
    expect(code).toContain("limiter.take('user:42', { cost: { tokens: 500 } })")
  })

  test.each(['tokens', 'tokens=', 'tokens=-1', 'tokens=1.5', '5=5'])(
    'has units that are whole numbers: %j',
    (units) => {
      expect(() => SHAPES.steady.make(trafficOf('steady', { units }).values)).toThrow('units must be meters with whole')
    },
  )
})

test('named limits stay text, whatever is typed', () => {
  const limits = [
    { name: 'second', limit: '5', window: '1s' },
    { name: '', limit: '', window: '' },
  ]
  expect(typedLimits(limitsText(limits))).toEqual(limits)
  expect(limitsText([{ name: 'a:b', limit: '1/2', window: '1,5s' }])).toBe('ab:12/15s')
})

test('the code for each policy compiles strictly, and makes that policy', () => {
  const blocks = POLICIES.map(([name, values], index) => ({
    page: 'docs/playground.md',
    line: index * 100 + 1,
    language: 'ts',
    code: codeOf(policyOf(name, values), { cost: index % 2 === 0 ? 1 : 5, units: { tokens: 500 } }),
    given: [],
  }))
  expect(blocks.map(({ code }) => code)).toContainEqual(expect.stringContaining('gcra({ limit: 20'))
  expect(complaintsAbout(blocks as never)).toEqual([])
  for (const [index, [name, values]] of POLICIES.entries()) {
    const [, options] = /\w+\((\{.*\})/s.exec(blocks[index]?.code.split('\n\n')[1] ?? '') ?? []
    const made: Record<string, unknown> = new Function(`return (${options})`)()
    expect(checked({ algorithm: functionOf(name), ...made })).toEqual(nativePolicy(name, values))
  }
})
