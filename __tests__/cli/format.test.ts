import { formatDuration, formatLength, formatNumber, formatRate, formatShare, formatTime } from '../../ts/cli/format.js'
import { formatInspection } from '../../ts/cli/redis/format-inspection.js'
import { pages } from '../docs/pages.js'

test.each([
  [1, '1 ms'],
  [999.2, '1 s'],
  [1_000, '1 s'],
  [1_234, '1.3 s'],
  [9_950, '10 s'],
  [10_001, '10.1 s'],
  [59_600, '59.6 s'],
  [59_901, '1 min'],
  [192_000, '3 min 12 s'],
  [3_599_500, '1 h'],
  [5_400_000, '1 h 30 min'],
  [86_399_999, '1 d'],
  [86_409_000, '1 d 9 s'],
  [90_000_000, '1 d 1 h'],
  [90_061_000, '1 d 1 h 1 min 1 s'],
  [31 * 86_400_000, '31 d'],
])('%d ms are formatted as %s, rounded up', (ms, words) => {
  expect(formatDuration(ms)).toBe(words)
})

test.each([
  [0.5, '0.5 ms'],
  [12, '12 ms'],
  [1_500, '1.5 s'],
  [59_600, '59.6 s'],
  [61_000, '1 min 1 s'],
  [3_600_001, '1 h 0.001 s'],
  [86_400_000, '1 d'],
  [86_409_000, '1 d 9 s'],
])('a length of %d ms is formatted as %s, exactly', (ms, words) => {
  expect(formatLength(ms)).toBe(words)
})

test.each([
  [100, 60_000, '100 per minute'],
  [10, 1_000, '10 per second'],
  [1, 100, '10 per second'],
  [5, 300_000, '1 per minute'],
  [1_000, 86_400_000, '1,000 per day'],
  [3, 7_200_000, '36 per day'],
  [1, 30 * 86_400_000, '1 per 30 d'],
  [7, 20 * 86_400_000, '7 per 20 d'],
  [1, 1_234.567, '1 per 1.234567 s'],
])('%d units in %d ms are formatted as %s', (units, periodMs, words) => {
  expect(formatRate(units, periodMs)).toBe(words)
})

test.each([
  [0, 100, '0 %'],
  [1, 1_000, 'below 1 %'],
  [1, 3, '33 %'],
  [999, 1_000, '99 %'],
  [1_000, 1_000, '100 %'],
  [15, 10, '150 %'],
])('%d of %d are formatted as %s', (part, whole, words) => {
  expect(formatShare(part, whole)).toBe(words)
})

test('numbers and times are formatted without a locale', () => {
  expect(formatNumber(1_234_567)).toBe('1,234,567')
  expect(formatTime(Date.UTC(2026, 10, 21, 7, 8, 9, 999))).toBe('2026-11-21 07:08:09 UTC')
})

test('inspect prints the output that the page shows', () => {
  const state = {
    ...({ policy: 'default', algorithm: 'gcra', key: 'user:42', isReadable: true } as const),
    ...{ used: 3, isUsedExact: true, limit: 5, rate: { units: 5, periodMs: 60_000 }, resetInMs: 36_000 },
    ...{
      blockedForMs: 192_000,
      override: { numbers: { limit: 6, periodMs: 60_000, burst: 8 }, forMs: 30 * 86_400_000 },
    },
  }
  const at = '2026-11-21T07:40:12.000Z'
  const inspection = { prefix: 'api', key: 'user:42', server: 'localhost:6379', at, states: [state] }
  const page = pages.find(({ path }) => path === 'docs/command-line.md')
  const block = page?.blocks.find(({ language, code }) => language === 'text' && code.startsWith('user:42'))
  expect(block?.code).toBe(formatInspection(inspection))
})
