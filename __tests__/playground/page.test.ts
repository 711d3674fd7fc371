/** The parts of the playground that guide its reader: verdicts, advice, steps, messages and bins. */
import fc from 'fast-check'
import { ALGORITHM_NAMES, ALGORITHMS } from '../../examples/playground/model/algorithms.js'
import { binsOf } from '../../examples/playground/model/bins.js'
import { QUESTION_NAMES, recommend } from '../../examples/playground/model/chooser.js'
import { codeOf } from '../../examples/playground/model/code.js'
import { partsOf } from '../../examples/playground/model/highlight.js'
import { inputErrorOf } from '../../examples/playground/model/input-error.js'
import type { LawResult } from '../../examples/playground/model/run.js'
import { policyOf, switchedPolicy, switchedTraffic, trafficOf } from '../../examples/playground/model/state.js'
import { stepped } from '../../examples/playground/model/steps.js'
import { SHAPE_NAMES, SHAPES, withBurst } from '../../examples/playground/model/traffic.js'
import { equalsOf, verdictOf } from '../../examples/playground/model/verdict.js'
import { cases } from '../cases.js'
import { nativeCounts, nativePolicy } from './addon.js'

describe('a verdict', () => {
  const law = (units: number, asked = 20): LawResult => ({
    spanUs: 10e6,
    most: 40,
    asked,
    closed: false,
    worst: { units, fromUs: 0 },
  })

  test.each([
    [39, 'You asked for 20 in 10 s; 39 got through, almost twice as many.'],
    [40, 'You asked for 20 in 10 s; 40 got through, twice as many.'],
    [50, 'You asked for 20 in 10 s; 50 got through, 2.5 times as many.'],
    [24, 'You asked for 20 in 10 s; 24 got through, 4 more.'],
  ])('warns about %i of 20', (units, sentence) => {
    expect(verdictOf([law(units)])).toEqual({ isMore: true, sentence })
  })

  test('does not warn if no more got through than was asked for', () => {
    const sentence = 'You asked for 20 in 10 s; at most 20 got through.'
    expect(verdictOf([law(20)])).toEqual({ isMore: false, sentence })
  })

  test('is about the limit that was exceeded most', () => {
    expect(verdictOf([law(20), law(30, 10)])?.sentence).toContain('You asked for 10')
    expect(verdictOf([])).toBeUndefined()
  })

  test('names policies that decided every call alike', () => {
    const [one, same, other] = ['101', '101', '100'].map((bits) => Uint8Array.from(bits, Number))
    expect(equalsOf([one, other, same])).toEqual([[0, 2]])
    expect(equalsOf([one, undefined, undefined])).toEqual([])
  })
})

describe('the three questions', () => {
  const all = QUESTION_NAMES.reduce<Record<string, boolean>[]>(
    (answers, name) => answers.flatMap((one) => [true, false].map((answer) => ({ ...one, [name]: answer }))),
    [{}],
  )

  test.each(all)('lead to a valid policy: %j', (answers) => {
    const { algorithm, values, reason } = recommend(answers as never)
    expect(nativePolicy(algorithm, values).algorithm).toBe(algorithm)
    expect(reason).toMatch(/\.$/)
  })

  test.each(all.filter(({ hard, calendar }) => hard === true && calendar === false))(
    'a hard limit is exceeded by one unit at most: %j',
    (answers) => {
      const { algorithm, values } = recommend(answers as never)
      const flood = Array.from({ length: 10_000 }, (_, index) => ({ atMs: index }))
      const { admitted } = nativeCounts(nativePolicy(algorithm, values), flood)
      expect(admitted === 20 || admitted === 21).toBe(true)
    },
  )
})

describe('a step', () => {
  const whole = { kind: 'whole', hint: '10' } as const
  const duration = { kind: 'duration' } as const

  test.each([
    [whole, '20', 1, '25'],
    [whole, '20', -1, '15'],
    [whole, '1', -1, '1'],
    [whole, '', 1, '15'],
    [whole, 'ten', 1, 'ten'],
    [{ kind: 'number' } as const, '1', 1, '1.5'],
    [{ kind: 'number' } as const, '0.1', -1, '0.09'],
    [duration, '10s', 1, '15s'],
    [duration, '90s', 1, '2m'],
    [duration, '1m', -1, '30s'],
    [duration, '30d', 1, '30d'],
  ] as const)('of %j from %j by %i is %j', (field, from, direction, to) => {
    expect(stepped(field, from, direction)).toBe(to)
  })

  test('up and down always leads to a number that the engine accepts', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000_000 }), fc.constantFrom(1, -1), (from, direction) => {
        const to = Number(stepped(whole, String(from), direction as 1 | -1))
        expect(Number.isSafeInteger(to) && to >= 1).toBe(true)
        expect(direction > 0 ? to > from : to < from || from === 1).toBe(true)
      }),
      cases(100),
    )
  })
})

test('columns end where windows of common lengths end', () => {
  for (const [seconds, windows] of [
    [30, [1, 5, 10]],
    [60, [1, 5, 10, 30]],
    [600, [10, 60]],
    [7_200, [60, 600, 3_600]],
    [172_800, [3_600, 86_400]],
  ] as const) {
    const { columns, widthUs } = binsOf(seconds * 1e6)
    expect(columns * widthUs).toBeGreaterThanOrEqual(seconds * 1e6)
    expect(columns).toBeGreaterThan(50)
    expect(columns).toBeLessThanOrEqual(150)
    expect(windows.filter((window) => (window * 1e6) % widthUs !== 0)).toEqual([])
  }
  expect(binsOf(1)).toEqual({ columns: 1, widthUs: 1_000 })
})

describe('another form', () => {
  test('keeps numbers of the same meaning only', () => {
    const typed = trafficOf('edge', {
      window: '7s',
      calls: '9',
      within: '1s',
      cost: '3',
      units: 'tokens=5',
      bursts: '30@2s',
    })
    expect(switchedTraffic(typed, 'bursts')).toEqual(
      trafficOf('bursts', { cost: '3', units: 'tokens=5', bursts: '30@2s' }),
    )
    const steady = trafficOf('steady', { rate: '8', length: '30s', seed: '5' })
    expect(switchedTraffic(steady, 'clients')).toEqual(trafficOf('clients', { length: '30s', seed: '5' }))
  })

  test('keeps a limit and its time', () => {
    const typed = policyOf('gcra', { limit: '7', period: '1m', burst: '3' })
    expect(switchedPolicy(typed, 'slidingWindow')).toEqual(policyOf('slidingWindow', { limit: '7', window: '1m' }))
    expect(switchedPolicy(typed, 'calendarWindow')).toEqual(policyOf('calendarWindow', { limit: '7' }))
    expect(switchedPolicy(typed, 'tokenBucket')).toEqual(policyOf('tokenBucket'))
    const metered = policyOf('tokenBucket', { meter: 'tokens' })
    expect(switchedPolicy(metered, 'slidingLog-limits').values).toMatchObject({ meter: 'tokens' })
  })
})

describe('an extra burst', () => {
  test('comes where none is yet', () => {
    const { values } = trafficOf('steady')
    const texts = [1, 2, 3, 4].reduce((given) => withBurst(given, 60e6), values)
    expect(texts).toMatchObject({ bursts: '30@30s 30@15s 30@45s 30@7500ms' })
  })

  test.each(SHAPE_NAMES.filter((name) => name !== 'pasted'))('adds its calls to the traffic: %s', (name) => {
    const { values } = trafficOf(name)
    const before = SHAPES[name].make(values)
    const after = SHAPES[name].make(withBurst(values, before.lengthUs, 2e6))
    expect(after.calls.length).toBe(before.calls.length + 30)
    expect(after.calls.filter(({ at }) => at === 2e6).length).toBeGreaterThanOrEqual(30)
  })

  test.each([
    ['30', 'bursts must be calls and a time, such as 30@12s, got "30"'],
    ['30@2h', 'bursts must be within the length of the traffic, got "30@2h"'],
    ['999999@1s', 'traffic must be at most 100,000 calls'],
  ])('that is invalid is refused: %j', (bursts, message) => {
    expect(() => SHAPES.steady.make({ ...trafficOf('steady').values, bursts })).toThrow(message)
  })
})

test.each([
  [
    'gcra: limit must be a whole number from 1 to 2^53 - 1, got 0',
    { message: 'Limit must be a whole number from 1 to 2^53 - 1. You typed 0.', path: 'limit' },
  ],
  ['gcra: burst and limit do not fit', { message: 'Burst and limit do not fit.', path: 'burst' }],
  ['gcra: something else, got 1', { message: 'Something else. You typed 1.' }],
])('a message of the engine is shown in the page’s words: %j', (message, shown) => {
  expect(inputErrorOf(message, 'gcra: ', ALGORITHMS.gcra.leaves)).toEqual(shown)
})

test.each(ALGORITHM_NAMES)('coloured code is the code: %s', (name) => {
  const code = codeOf(policyOf(name), { cost: 5 })
  const parts = partsOf(code)
  expect(parts.map(({ text }) => text).join('')).toBe(code)
  expect(parts.filter(({ kind }) => kind === 'keyword').map(({ text }) => text)).toContain('import')
  expect(parts.filter(({ kind }) => kind === 'string').map(({ text }) => text)).toContain("'tollgate'")
  expect(parts.filter(({ kind }) => kind === 'number').map(({ text }) => text)).toContain('20')
})
