/** The peaks of keys: equal to a slow count, and the gap between busy keys and the rest. */
import fc from 'fast-check'
import { Peaks, windowsOf } from '../../ts/cli/simulate/peaks.js'
import { fixedWindow, gcra, tokenBucket } from '../../ts/index.js'
import { cases } from '../cases.js'

/** Peaks of requests of keys, as times in milliseconds. */
function reportOf(requests: readonly (readonly [time: number, key: number, units: number])[], windowMs = 60_000) {
  const peaks = new Peaks(windowMs)
  for (const [time, key, units] of [...requests].sort(([one], [other]) => one - other)) {
    peaks.count(time, units, key)
  }
  return peaks.report
}

test('are the most units in any sixty steps, by a slow count', () => {
  const request = fc.tuple(fc.nat(200_000), fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 5 }))
  fc.assert(
    fc.property(fc.array(request, { minLength: 1, maxLength: 200 }), (requests) => {
      const { quantiles, keys } = reportOf(requests)
      const step = (time: number) => Math.floor(time / 1_000)
      const peaksOf = (key: number) => {
        const own = requests.filter(([, other]) => other === key)
        return own.map(([end]) => {
          const within = own.filter(([time]) => step(time) <= step(end) && step(time) > step(end) - 60)
          return within.reduce((sum, [, , units]) => sum + units, 0)
        })
      }
      const names = new Set(requests.map(([, key]) => key))
      const all = [...names].map((key) => Math.max(...peaksOf(key)))
      expect([keys, quantiles.max]).toEqual([names.size, Math.max(...all)])
      expect(quantiles.p50).toBe(all.sort((one, other) => one - other)[Math.ceil(all.length / 2) - 1])
    }),
    cases(100),
  )
})

test('the widest gap separates busy keys, and a flat distribution has none', () => {
  const burst = (key: number, count: number) => Array.from({ length: count }, (_, n) => [n * 10, key, 1] as const)
  const { gap, limits } = reportOf([...burst(1, 3), ...burst(2, 5), ...burst(3, 100), ...burst(4, 90)])
  expect(gap).toEqual({ from: 5, to: 89, middle: 20, keys: 2 })
  // From the last limit that all keys exceed.
  expect(limits).toEqual([
    { limit: 2, keys: 4 },
    { limit: 5, keys: 2 },
    { limit: 10, keys: 2 },
    { limit: 20, keys: 2 },
    { limit: 50, keys: 2 },
    { limit: 100, keys: 0 },
  ])
  expect(reportOf([...burst(1, 3), ...burst(2, 4), ...burst(3, 5)]).gap).toBeNull()
})

test('a gap below most keys is none: it separates no busy ones', () => {
  const burst = (key: number, count: number) => Array.from({ length: count }, (_, n) => [n * 10, key, 1] as const)
  expect(reportOf([1, 2, 5, 6, 7].flatMap((count, key) => burst(key + 1, count))).gap).toBeNull()
})

test.each([
  [[41, 449], 100],
  [[11, 47], 20],
  // 30 and 40 are not round enough: the mean.
  [[21, 42], 30],
])('the middle of the gap %j is %i', ([from = 0, to = 0], middle) => {
  const burst = (key: number, count: number) => Array.from({ length: count }, (_, n) => [n * 10, key, 1] as const)
  const { gap } = reportOf([...burst(1, from), ...burst(2, from), ...burst(3, to + 1)])
  expect(gap).toEqual({ from, to, middle, keys: 1 })
})

test('requests without a key are not counted', () => {
  expect(reportOf([[0, 0, 1]])).toMatchObject({ keys: 0, gap: null, quantiles: { max: 0 } })
})

test('the windows are those of the policies, each once', () => {
  const named = [
    gcra({ limit: 1, period: '1m' }),
    fixedWindow({ limit: 1, window: '1m' }),
    gcra({ limit: 1, period: '1s' }),
  ]
  const bucket = tokenBucket({ capacity: 1, refill: { tokens: 1, every: '1s' } })
  expect(windowsOf([...named, bucket].map((policy, index) => ({ name: `${index}`, policy })))).toEqual([1_000, 60_000])
})
