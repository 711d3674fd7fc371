/** The waiting times that servers name. */

import { type AttemptResult, answerOf } from '../../ts/client/answer.js'
import { backoffMs, isIdempotentRequest, mayRetry } from '../../ts/client/retry.js'

const NOW = Date.UTC(2026, 5, 1, 12)

const value = (status: number, headers: Record<string, string> = {}): AttemptResult => {
  return { isError: false, value: new Response(null, { status, headers }) }
}

const failure = (error: unknown): AttemptResult => ({ isError: true, error })

const delayOf = (headers: Record<string, string>) => answerOf(value(429, headers), NOW).delayMs

test.each<readonly [Record<string, string>, number | undefined]>([
  [{ 'retry-after': '7' }, 7_000],
  [{ 'Retry-After': ' 1.5 ' }, 1_500],
  [{ 'retry-after': '0' }, undefined],
  [{ 'retry-after': '-1' }, undefined],
  [{ 'retry-after': 'soon' }, undefined],
  [{ 'retry-after': '999999999' }, 86_400_000],
  [{ 'retry-after': 'Mon, 01 Jun 2026 12:00:30 GMT' }, 30_000],
  [{ 'retry-after': 'Mon, 01 Jun 2026 11:00:00 GMT' }, undefined],
  // The clock of the server is an hour behind.
  [{ 'retry-after': 'Mon, 01 Jun 2026 11:00:30 GMT', date: 'Mon, 01 Jun 2026 11:00:00 GMT' }, 30_000],
  [{ 'retry-after-ms': '250', 'retry-after': '1' }, 250],
  [{ ratelimit: '"default";r=0;t=30' }, 30_000],
  [{ ratelimit: '"burst";r=5;t=60, "day";r=0;t=20, "hour";r=0;t=40' }, 40_000],
  [{ ratelimit: '"default";r=3;t=30' }, undefined],
  [{ ratelimit: 'limit=10, remaining=0, reset=12' }, 12_000],
  [{ ratelimit: 'limit=10, remaining=2, reset=12' }, undefined],
  [{ 'ratelimit-reset': '9' }, 9_000],
  [{ 'x-ratelimit-reset': '9' }, 9_000],
  [{ 'x-ratelimit-reset': String(NOW / 1_000 + 11) }, 11_000],
  [{ 'x-ratelimit-reset': String(NOW + 1_100) }, 1_100],
  [{ 'retry-after': 'soon', 'x-ratelimit-reset': '3' }, 3_000],
  [{}, undefined],
])('the time that %j names', (headers, expected) => {
  expect(delayOf(headers)).toBe(expected)
})

test('answers and errors of HTTP clients are read', () => {
  const seven = { status: 429, delayMs: 7_000 }
  const headers = { 'Retry-After': '7' }
  expect(answerOf(value(429, headers), NOW)).toEqual(seven)
  expect(answerOf({ isError: false, value: { statusCode: 429, headers } }, NOW)).toEqual(seven)
  expect(answerOf({ isError: false, value: { status: 429, headers: { 'retry-after': 7 } } }, NOW)).toEqual(seven)
  expect(answerOf(failure({ response: { status: 429, headers } }), NOW)).toEqual(seven)
  expect(answerOf(failure({ status: 429, headers: new Headers(headers) }), NOW)).toEqual(seven)
  expect(answerOf(failure({ status: 429 }), NOW)).toEqual({ status: 429, delayMs: undefined })
})

test('other values are not answers', () => {
  const none = { status: undefined, delayMs: undefined }
  for (const other of [
    undefined,
    null,
    429,
    'refused',
    { status: 429 },
    { status: 'active', headers: {} },
    [],
    () => {},
  ]) {
    expect(answerOf({ isError: false, value: other }, NOW)).toEqual(none)
  }
  expect(answerOf(failure(new Error('no')), NOW)).toEqual(none)
})

describe('retries', () => {
  const cases: readonly (readonly [string, AttemptResult, number | undefined, boolean, boolean])[] = [
    // Name, result, status; whether it is sent again if it is not idempotent, and if it is.
    ['429', value(429), 429, true, true],
    ['503', value(503), 503, false, true],
    ['500', value(500), 500, false, true],
    ['501', value(501), 501, false, false],
    ['404', value(404), 404, false, false],
    ['200', value(200), 200, false, false],
    ['a lost connection', failure(Object.assign(new Error('reset'), { code: 'ECONNRESET' })), undefined, false, true],
    ['fetch', failure(new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } })), undefined, false, true],
    ['a browser', failure(new TypeError('Failed to fetch')), undefined, false, true],
    ['a defect', failure(new TypeError('x is not a function')), undefined, false, false],
    ['a string', failure('no'), undefined, false, false],
    ['null', failure(null), undefined, false, false],
    ['a value', { isError: false, value: 7 }, undefined, false, false],
  ]
  test.each(cases)('after %s', (_, result, status, otherwise, ifIdempotent) => {
    expect(mayRetry(result, status, false)).toBe(otherwise)
    expect(mayRetry(result, status, true)).toBe(ifIdempotent)
  })

  test('requests are idempotent by method or by key', () => {
    for (const method of ['get', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE']) {
      expect(isIdempotentRequest(method, false)).toBe(true)
    }
    for (const method of ['POST', 'PATCH', 'LINK']) {
      expect(isIdempotentRequest(method, false)).toBe(false)
      expect(isIdempotentRequest(method, true)).toBe(true)
    }
  })

  test('delays double up to the longest, and are random from their half on', () => {
    for (const [retry, longest] of [
      [1, 100],
      [2, 200],
      [3, 400],
      [4, 500],
      [100, 500],
    ] as const) {
      const random = jest.spyOn(Math, 'random')
      try {
        const delays = [0, 0.25, 0.5, 0.75, 1].map((drawn) => {
          random.mockReturnValue(drawn)
          return backoffMs(retry, { minDelay: 100, maxDelay: 500 })
        })
        expect(delays).toEqual([0.5, 0.625, 0.75, 0.875, 1].map((part) => Math.round(part * longest)))
      } finally {
        random.mockRestore()
      }
    }
  })
})
