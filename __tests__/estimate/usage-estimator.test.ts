/** `UsageEstimator`: its quantiles against a naive count, its bounds, its memory and its errors. */
import { type EstimateOptions, UsageEstimator, type UsageEstimatorOptions } from '../../ts/estimate/index.js'
import { fixedWindow, RateLimiter } from '../../ts/index.js'
import { anything, failureOf } from '../failure.js'
import { Random } from '../random.js'
import { type Equal, holds } from '../type-proof.js'

const DECLARED = 1_000_000

/** An estimator that has recorded these numbers under the key `a`. */
function recorded(numbers: readonly number[], options: UsageEstimatorOptions = {}): UsageEstimator {
  const estimates = new UsageEstimator({ minSamples: 1, ...options })
  for (const number of numbers) {
    estimates.record('a', number)
  }
  return estimates
}

describe('the quantile', () => {
  /** The smallest of the latest numbers that covers this many hundredths of them, by counting. */
  function oracle(all: readonly number[], samples: number, hundredths: number): number {
    const latest = all.slice(-samples)
    const covers = (value: number) => latest.filter((one) => one <= value).length * 100 >= hundredths * latest.length
    return Math.min(...latest.filter(covers))
  }

  test.each([1, 2, 3, 4, 5, 6])('is that of a naive count, after each of many numbers: seed %i', (seed) => {
    const random = new Random(seed)
    for (let round = 0; round < 25; round++) {
      const samples = random.one([1, 2, 3, 7, 20, 100])
      const hundredths = random.one([1, 7, 29, 50, 55, 58, 90, 99, 100])
      // Few different numbers are often equal; many are mostly distinct.
      const most = random.one([1, 3, 50, 1_000_000])
      const estimates = new UsageEstimator({ quantile: hundredths / 100, samples, minSamples: 1 })
      const all: number[] = []
      for (let call = 0; call < 3 * samples + 5; call++) {
        all.push(random.whole(0, most))
        estimates.record('a', all.at(-1) as number)
        expect(estimates.estimate('a', DECLARED)).toBe(Math.max(1, oracle(all, samples, hundredths)))
      }
    }
  })

  test('of ascending, descending and equal numbers', () => {
    const up = Array.from({ length: 250 }, (_, index) => index + 1)
    expect(recorded(up).estimate('a', DECLARED)).toBe(240)
    expect(recorded(up.reverse()).estimate('a', DECLARED)).toBe(90)
    expect(recorded(Array(250).fill(7)).estimate('a', DECLARED)).toBe(7)
  })

  test('of 1 is the largest of the latest numbers', () => {
    const numbers = [900, ...Array(99).fill(5)]
    expect(recorded(numbers, { quantile: 1 }).estimate('a', DECLARED)).toBe(900)
    expect(recorded([...numbers, 6], { quantile: 1 }).estimate('a', DECLARED)).toBe(6)
  })

  test('follows a change within as many calls as it remembers', () => {
    const estimates = recorded(Array(100).fill(50))
    const seen: number[] = []
    for (let call = 0; call < 100; call++) {
      estimates.record('a', 800)
      seen.push(estimates.estimate('a', DECLARED))
    }
    // Of the latest 100, more than a tenth are new: the quantile 0.9 is one of them.
    expect(seen.indexOf(800)).toBe(10)
    expect(seen.slice(10)).toEqual(Array(90).fill(800))
  })
})

describe('an estimate', () => {
  test('is the declared maximum until there are enough calls', () => {
    const estimates = new UsageEstimator()
    expect(estimates.estimate('a', 4_096)).toBe(4_096)
    for (let call = 0; call < 9; call++) {
      estimates.record('a', 100)
    }
    expect(estimates.estimate('a', 4_096)).toBe(4_096)
    estimates.record('a', 100)
    expect(estimates.estimate('a', 4_096)).toBe(100)
    expect(estimates.estimate('b', 4_096)).toBe(4_096)
  })

  test('with fewer samples than ten, needs only these', () => {
    expect(recorded([5, 6, 7], { samples: 3 }).estimate('a', DECLARED)).toBe(7)
    const estimates = new UsageEstimator({ samples: 2 })
    estimates.record('a', 5)
    expect(estimates.estimate('a', 4_096)).toBe(4_096)
    estimates.record('a', 5)
    expect(estimates.estimate('a', 4_096)).toBe(5)
  })

  test('has the known units, which are never reduced', () => {
    const estimates = recorded([300])
    expect(estimates.estimate('a', 4_096, { known: 50 })).toBe(350)
    expect(estimates.estimate('a', 4_096, { known: 50, atMost: 200 })).toBe(200)
    expect(estimates.estimate('a', 4_096, { known: 200, atMost: 200 })).toBe(200)
    expect(estimates.estimate('a', 4_096, { known: 900, atMost: 200 })).toBe(900)
    expect(estimates.estimate('b', 4_096, { known: 50 })).toBe(4_146)
  })

  test('stays within its bounds, whatever is recorded', () => {
    const random = new Random(7)
    const largest = Number.MAX_SAFE_INTEGER
    const some = (min: number) => random.one([min, 1, 2, random.whole(1, 5_000), largest - 1, largest])
    for (let round = 0; round < 2_000; round++) {
      const estimates = recorded([some(0), some(0)], { quantile: random.one([0.1, 0.5, 1]) })
      const [declared, known, atMost] = [some(1), random.whole(0, 5_000), some(1)]
      const key = random.one(['a', 'none'])
      const units = estimates.estimate(key, declared, { known, atMost })
      expect(Number.isSafeInteger(units)).toBe(true)
      expect(units).toBeGreaterThanOrEqual(Math.max(1, known))
      expect(units).toBeLessThanOrEqual(Math.max(known, Math.min(atMost, known + declared)))
      expect(Number.isSafeInteger(estimates.estimate(key, declared, { known: largest }))).toBe(true)
    }
  })

  test('of calls that used nothing is 1', () => {
    expect(recorded([0, 0]).estimate('a', 4_096)).toBe(1)
    expect(recorded([0, 0]).estimate('a', 4_096, { known: 3 })).toBe(3)
  })

  test('never makes a call impossible whose known units fit', async () => {
    const limiter = new RateLimiter(fixedWindow({ limit: 10_000, window: '1m' }))
    const estimates = new UsageEstimator()
    const atMost = limiter.policies.default.limit
    const [known, declared] = [2_250, 16_384]
    const refused = await limiter.reserve('customer:7', known + declared)
    expect(refused.decision.status).toBe('impossible')
    const reservation = await limiter.reserve('customer:7', estimates.estimate('large', declared, { known, atMost }))
    expect(reservation.allowed && reservation.units).toBe(10_000)
    const tooLong = await limiter.reserve('b', estimates.estimate('large', declared, { known: 10_001, atMost }))
    expect(tooLong.decision.status).toBe('impossible')
  })
})

describe('memory', () => {
  test('has only the keys that were used last', () => {
    const estimates = new UsageEstimator({ minSamples: 1, maxKeys: 3 })
    const isKnown = (key: string) => estimates.estimate(key, 4_096) === 5
    for (const key of ['a', 'b', 'c']) {
      estimates.record(key, 5)
    }
    // An estimate uses its key, so `b` is the oldest one. One for an unknown key adds nothing.
    expect([isKnown('a'), isKnown('none')]).toEqual([true, false])
    estimates.record('d', 5)
    expect(['b', 'a', 'c', 'd'].map(isKnown)).toEqual([false, true, true, true])
    estimates.record('a', 5)
    estimates.record('e', 5)
    expect(['c', 'a', 'd', 'e'].map(isKnown)).toEqual([false, true, true, true])
  })

  test('a flood of keys leaves those that are in use', () => {
    const estimates = new UsageEstimator({ minSamples: 1, maxKeys: 10 })
    for (let call = 0; call < 10_000; call++) {
      estimates.record(`flood:${call}`, 1)
      estimates.record('model', 5)
    }
    expect(estimates.estimate('model', 4_096)).toBe(5)
    expect(estimates.estimate('flood:9', 4_096)).toBe(4_096)
    expect(estimates.estimate('flood:9999', 4_096)).toBe(1)
  })

  test('any text is a key by itself', () => {
    const estimates = new UsageEstimator({ minSamples: 1 })
    const keys = ['__proto__', 'constructor', 'toString', ' ', '\0', 'a', 'A', 'x'.repeat(1_024)]
    for (const [index, key] of keys.entries()) {
      estimates.record(key, index + 1)
    }
    expect(keys.map((key) => estimates.estimate(key, 4_096))).toEqual(keys.map((_, index) => index + 1))
  })
})

describe('errors', () => {
  const WHOLE = 'must be a whole number from'

  test.each([
    [{ quantile: 0 }, 'quantile must be a number above 0 and at most 1, got 0'],
    [{ quantile: -0.5 }, 'quantile must be a number above 0 and at most 1, got -0.5'],
    [{ quantile: NaN }, 'quantile must be a number above 0 and at most 1, got NaN'],
    [{ quantile: '0.9' }, 'quantile must be a number above 0 and at most 1, got "0.9"'],
    [{ quantile: 90 }, 'quantile must be a number above 0 and at most 1, got 90: write 0.9'],
    [{ quantile: Infinity }, 'quantile must be a number above 0 and at most 1, got Infinity'],
    [{ samples: 0 }, `samples ${WHOLE} 1 to 10000, got 0`],
    [{ samples: 10_001 }, `samples ${WHOLE} 1 to 10000, got 10001`],
    [{ minSamples: 1.5 }, `minSamples ${WHOLE} 1 to 2^53 - 1, got 1.5`],
    [{ minSamples: 101 }, 'minSamples must be at most samples (100), got 101'],
    [{ maxKeys: '10' }, `maxKeys ${WHOLE} 1 to 1000000, got "10": pass a number, not a string`],
    [{ percentile: 0.9 }, 'UsageEstimator has no option "percentile"; did you mean "quantile"?'],
    [{ maxkeys: 5 }, 'UsageEstimator has no option "maxkeys"; did you mean "maxKeys"?'],
    [null, 'UsageEstimator takes an object of options (quantile, samples, minSamples, maxKeys), got null'],
    [new Map(), 'UsageEstimator takes an object of options (quantile, samples, minSamples, maxKeys), got a Map'],
  ])('options %p', (options, message) => {
    const error = failureOf(() => new UsageEstimator(anything(options)))
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message.replace(/(?<=\?) It takes .*/, '')).toBe(message)
  })

  test.each([undefined, null, NaN, Infinity, -1, 0.5, 2 ** 53, '5', 5n, {}, Promise.resolve(5)])(
    '%p is no number of units',
    (units) => {
      const estimates = new UsageEstimator()
      const messages = (call: () => unknown) => {
        const { code, message } = failureOf(call)
        return [code, message.replace(/(?<= \^53 - 1), got .*/, '')]
      }
      const rule = (name: string, min: number) => [
        'INVALID_OPTION',
        expect.stringMatching(RegExp(`^${name} ${WHOLE} ${min} to 2\\^53 - 1, got `)),
      ]
      expect(messages(() => estimates.estimate('a', anything(units)))).toEqual(rule('estimate: declaredMax', 1))
      expect(messages(() => estimates.record('a', anything(units)))).toEqual(rule('record: used', 0))
      if (units !== undefined && units !== null) {
        const of = (options: unknown) => messages(() => estimates.estimate('a', 1, anything(options)))
        expect(of({ known: units })).toEqual(rule('estimate: known', 0))
        expect(of({ atMost: units })).toEqual(rule('estimate: atMost', 1))
      }
      // Nothing was recorded.
      expect(new UsageEstimator({ minSamples: 1 }).estimate('a', 9)).toBe(9)
    },
  )

  test('keys', () => {
    const estimates = new UsageEstimator()
    for (const key of [undefined, null, 5, {}, '', 'x'.repeat(1_025), '\ud800']) {
      for (const call of [() => estimates.estimate(anything(key), 1), () => estimates.record(anything(key), 1)]) {
        expect(failureOf(call)).toMatchObject({ code: 'INVALID_KEY', message: expect.stringMatching(/^key must /) })
      }
    }
  })

  test('unknown options of an estimate', () => {
    const of = (options: unknown) => failureOf(() => new UsageEstimator().estimate('a', 1, anything(options))).message
    expect(of({ atmost: 5 })).toBe('estimate has no option "atmost"; did you mean "atMost"? It takes known, atMost')
    expect(of({ capacity: 5 })).toBe('estimate has no option "capacity"; did you mean "atMost"? It takes known, atMost')
    expect(of({ input: 5 })).toBe('estimate has no option "input"; did you mean "known"? It takes known, atMost')
    expect(of(100)).toBe('estimate takes an object of options (known, atMost), got 100')
  })
})

describe('types', () => {
  test('units are numbers', () => {
    holds<Equal<Parameters<UsageEstimator['record']>, [key: string, used: number]>>()
    holds<Equal<ReturnType<UsageEstimator['estimate']>, number>>()
    holds<Equal<keyof UsageEstimatorOptions, 'quantile' | 'samples' | 'minSamples' | 'maxKeys'>>()
    holds<Equal<keyof EstimateOptions, 'known' | 'atMost'>>()
  })

  test('unknown options do not compile', () => {
    // @ts-expect-error no such option
    expect(() => new UsageEstimator({ percentile: 0.9 })).toThrow('no option')
    // @ts-expect-error no such option
    expect(() => new UsageEstimator().estimate('a', 1, { capacity: 5 })).toThrow('no option')
  })
})
