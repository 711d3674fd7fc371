/** The waiting times that servers name. */

import { type Answer, type AttemptResult, answerOf, NO_ANSWER } from '../../ts/client/answer.js'
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
  // A time above the cap, and that of a proxy beside the server's.
  [{ 'retry-after': '9'.repeat(30) }, 86_400_000],
  [{ 'retry-after': '10, 20' }, 20_000],
  [{ 'retry-after': '9'.repeat(400) }, undefined],
  // Epoch microseconds, and a limit with a strange name.
  [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String((NOW + 4_000) * 1_000) }, 4_000],
  [{ ratelimit: '"a,b;r=0;t=9";r=1;t=3, "c\\"";r=0;t=5' }, 5_000],
  // Only dates of HTTP are dates; all three forms are in GMT.
  [{ 'retry-after': '2090-01' }, undefined],
  [{ 'retry-after': '2026-06-01T12:00:30' }, undefined],
  [{ 'retry-after': 'Mon Jun  1 12:00:30 2026' }, 30_000],
  [{ 'retry-after': 'Monday, 01-Jun-26 12:00:30 GMT' }, 30_000],
  // OpenAI: the empty budget decides; of several empty ones the last to have units again.
  [{ 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '6m0s' }, 360_000],
  [
    {
      'x-ratelimit-remaining-requests': '9',
      'x-ratelimit-reset-requests': '8.64s',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '120ms',
    },
    120,
  ],
  [
    {
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '1m2.5s',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '1s',
    },
    62_500,
  ],
  // Anthropic.
  [
    {
      'anthropic-ratelimit-requests-remaining': '4',
      'anthropic-ratelimit-requests-reset': '2026-06-01T12:01:00Z',
      'anthropic-ratelimit-tokens-remaining': '0',
      'anthropic-ratelimit-tokens-reset': '2026-06-01T12:00:05Z',
    },
    5_000,
  ],
  // GitHub, by the clock of the server, which is ten minutes ahead.
  [
    {
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(NOW / 1_000 + 630),
      date: 'Mon, 01 Jun 2026 12:10:00 GMT',
    },
    30_000,
  ],
  // The patterns are not tried on such a name, and a budget without a time names none.
  [{ [`x-ratelimit-${'ratelimit-'.repeat(500)}reset`]: '9' }, undefined],
  [{ 'x-ratelimit-remaining': '0' }, undefined],
  [{}, undefined],
])('the time that %j names', (headers, expected) => {
  expect(delayOf(headers)).toBe(expected)
})

test('answers and errors of HTTP clients are read', () => {
  const seven: Answer = { status: 429, isRefusal: true, delayMs: 7_000, emptyMs: undefined }
  const headers = { 'Retry-After': '7' }
  expect(answerOf(value(429, headers), NOW)).toEqual(seven)
  expect(answerOf({ isError: false, value: { statusCode: 429, headers } }, NOW)).toEqual(seven)
  expect(answerOf({ isError: false, value: { status: 429, headers: { 'retry-after': 7 } } }, NOW)).toEqual(seven)
  expect(answerOf(failure({ response: { status: 429, headers } }), NOW)).toEqual(seven)
  expect(answerOf(failure({ status: 429, headers: new Headers(headers) }), NOW)).toEqual(seven)
  expect(answerOf(failure({ status: 429 }), NOW)).toEqual({ ...seven, delayMs: undefined })
})

const headers = { 'retry-after': '30' }
const empty = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW / 1_000 + 60) }

test.each<readonly [string, object, number, number]>([
  // Name, error; its status and its time.
  ['axios', { status: 429, code: 'ERR_BAD_REQUEST', response: { status: 429, headers } }, 429, 30_000],
  ['octokit', { status: 403, response: { status: 403, headers: empty } }, 403, 60_000],
  ['superagent', { status: 503, response: { status: 503, statusCode: 503, headers } }, 503, 30_000],
  ['got', { code: 'ERR_NON_2XX_3XX_RESPONSE', response: { statusCode: 429, headers } }, 429, 30_000],
  ['the AI SDK', { statusCode: 429, responseHeaders: headers }, 429, 30_000],
  ['http-errors', { statusCode: 429, headers }, 429, 30_000],
  ['one whose status is a text', { status: 'error', statusCode: 429, headers }, 429, 30_000],
  ['the AWS SDK', { $metadata: { httpStatusCode: 429 }, $response: { statusCode: 429, headers } }, 429, 30_000],
  ['a wrapped answer', { cause: { status: 429, headers } }, 429, 30_000],
  ['a wrapped error', { cause: { status: 429, response: { status: 429, headers } } }, 429, 30_000],
  ['headers as Headers', { status: 429, response: { status: 429, headers: new Headers(headers) } }, 429, 30_000],
  ['headers as a Map', { status: 429, headers: new Map(Object.entries(headers)) }, 429, 30_000],
  ['headers as pairs', { status: 429, headers: Object.entries({ date: 'now', 'Retry-After': 30 }) }, 429, 30_000],
  ['headers in turn', { status: 429, headers: ['Server', 'x', 'Retry-After', '10', 'retry-after', '30'] }, 429, 30_000],
])('the time in an error of %s', (_, error, status, delayMs) => {
  const answer = { status, isRefusal: true, delayMs }
  expect(answerOf(failure(Object.assign(new Error('refused'), error)), NOW)).toMatchObject(answer)
})

test('a status without headers counts, if there is no other', () => {
  for (const error of [
    { status: 429, response: {} },
    { response: { status: 429 } },
    { $metadata: { httpStatusCode: 429 } },
    { cause: { statusCode: 429 } },
  ]) {
    expect(answerOf(failure(error), NOW)).toEqual({ ...NO_ANSWER, status: 429, isRefusal: true })
  }
})

test('other values are not answers', () => {
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
    expect(answerOf({ isError: false, value: other }, NOW)).toEqual(NO_ANSWER)
  }
  expect(answerOf(failure(new Error('no')), NOW)).toEqual(NO_ANSWER)
})

test.each<readonly [string, AttemptResult, boolean, number | undefined]>([
  // Name, result; whether it is a refusal, and its time.
  ['403', value(403), false, undefined],
  ['403 with Retry-After', value(403, { 'retry-after': '60' }), true, 60_000],
  [
    '403 of GitHub with an empty limit',
    value(403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW / 1_000 + 9) }),
    true,
    9_000,
  ],
  [
    '403 with units left',
    value(403, { 'x-ratelimit-remaining': '8', 'x-ratelimit-reset': String(NOW / 1_000 + 9) }),
    false,
    undefined,
  ],
  ['503', value(503), false, undefined],
  ['503 with Retry-After', value(503, { 'retry-after': '2' }), true, 2_000],
  ['200 of an empty limit', value(200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '4' }), false, 4_000],
])('the answer %s', (_, result, isRefusal, delayMs) => {
  expect(answerOf(result, NOW)).toMatchObject({ isRefusal, delayMs })
})

test('errors of gRPC are refusals if they are RESOURCE_EXHAUSTED, also with the time in their metadata', () => {
  const metadata = (values: Readonly<Record<string, unknown>>) => ({
    get: (name: string) => (name in values ? [values[name]] : []),
  })
  const exhausted = (values: object, more: object = {}) => {
    return answerOf(
      failure(Object.assign(new Error('8'), { code: 8, metadata: metadata({ ...values }), ...more })),
      NOW,
    )
  }
  expect(exhausted({})).toEqual({ ...NO_ANSWER, isRefusal: true })
  expect(exhausted({ 'grpc-retry-pushback-ms': '250' }).delayMs).toBe(250)
  expect(exhausted({}, { statusDetails: [{}, { retryDelay: { seconds: '3', nanos: 500_000_000 } }] }).delayMs).toBe(
    3_500,
  )
  expect(exhausted({}, { errorDetails: [{ retryDelay: '34.07s' }] }).delayMs).toBe(34_070)
  // A google.rpc.Status whose detail is a RetryInfo of 2 s.
  const type = new TextEncoder().encode('type.googleapis.com/google.rpc.RetryInfo')
  const detail = [10, type.length, ...type, 18, 4, 10, 2, 8, 2]
  const status = new Uint8Array([8, 8, 26, detail.length, ...detail])
  expect(exhausted({ 'grpc-status-details-bin': status }).delayMs).toBe(2_000)
  const retryInfo = { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '6s' }
  expect(answerOf(failure({ status: 429, error: { details: [retryInfo] } }), NOW).delayMs).toBe(6_000)
  const response = { status: 429, headers: {}, data: { error: { details: [retryInfo] } } }
  expect(answerOf(failure({ response }), NOW).delayMs).toBe(6_000)
  expect(answerOf(failure({ code: 8, details: 'quota exceeded' }), NOW).isRefusal).toBe(true)
  expect(answerOf(failure({ code: 'RESOURCE_EXHAUSTED' }), NOW).isRefusal).toBe(true)
  expect(answerOf(failure({ code: 14, metadata: metadata({}) }), NOW)).toEqual(NO_ANSWER)
  expect(answerOf(failure({ code: 8 }), NOW)).toEqual(NO_ANSWER)
})

test.each<readonly [string, unknown, number | undefined]>([
  ['Headers without a time', new Headers(), undefined],
  ['Headers with a time', new Headers({ 'grpc-retry-pushback-ms': '5000' }), 5_000],
  ['a Map without a time', new Map(), undefined],
  ['a Map with a time', new Map([['grpc-retry-pushback-ms', '5000']]), 5_000],
  ['a Map of lists', new Map([['grpc-retry-pushback-ms', ['5000']]]), 5_000],
  ['null', { get: () => null }, undefined],
  [
    'members that throw',
    {
      get: () => {
        throw new Error('no metadata')
      },
    },
    undefined,
  ],
])('a refusal of gRPC whose metadata are %s', (_, metadata, delayMs) => {
  const error = Object.assign(new Error('8'), { code: 8, metadata })
  expect(answerOf(failure(error), NOW)).toEqual({ ...NO_ANSWER, isRefusal: true, delayMs })
})

test('a RetryInfo whose bytes Connect has not decoded is read', () => {
  // 2 s.
  const value = new Uint8Array([10, 2, 8, 2])
  const details = [
    { type: 'google.rpc.ErrorInfo', value: new Uint8Array([10, 1, 120]) },
    { type: 'google.rpc.RetryInfo', value },
  ]
  expect(answerOf(failure({ code: 8, metadata: new Headers(), details }), NOW).delayMs).toBe(2_000)
})

test('a result whose members throw has no answer', () => {
  const broken = {
    status: 429,
    get headers(): unknown {
      throw new Error('no headers')
    },
  }
  expect(answerOf({ isError: false, value: broken }, NOW)).toEqual(NO_ANSWER)
  expect(answerOf(failure(broken), NOW)).toEqual(NO_ANSWER)
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
    ['a timeout of its own', failure(new DOMException('slow', 'TimeoutError')), undefined, false, true],
    ['403 with a time', value(403, { 'retry-after': '1' }), 403, true, true],
    ['503 with a time', value(503, { 'retry-after': '1' }), 503, false, true],
    ['a string', failure('no'), undefined, false, false],
    ['null', failure(null), undefined, false, false],
    ['a value', { isError: false, value: 7 }, undefined, false, false],
  ]
  test.each(cases)('after %s', (_, result, status, otherwise, ifIdempotent) => {
    const answer = answerOf(result, NOW)
    expect(answer.status).toBe(status)
    expect(mayRetry(result, answer, false)).toBe(otherwise)
    expect(mayRetry(result, answer, true)).toBe(ifIdempotent)
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
