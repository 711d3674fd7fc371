import { type Duration, fixedWindow, gcra, RateLimiter } from '../../ts/index.js'

test.each<[Duration, number]>([
  [1, 1],
  [0.001, 0.001],
  [1.1, 1.1],
  [0.3, 0.3],
  [1234.567, 1234.567],
  ['500ms', 500],
  ['0.5ms', 0.5],
  ['10s', 10_000],
  ['1.5s', 1_500],
  ['1m', 60_000],
  ['1h', 3_600_000],
  ['1d', 86_400_000],
  ['1w', 604_800_000],
  ['30d', 2_592_000_000],
])('%p is %p ms', (duration, millis) => {
  expect(gcra({ limit: 1, period: duration }).period).toBe(millis)
})

test('a window shorter than a millisecond ends on the next whole millisecond', () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 1, window: 0.001 }))
  expect(limiter.takeSync('a').resetAfterMs).toBe(1)
})
