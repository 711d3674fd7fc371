/** Errors in options and arguments of `OutgoingClient`. */

import { type ClientOptions, OutgoingClient, type ScheduleOptions } from '../../ts/client/index.js'
import { concurrency, gcra, RateLimiter } from '../../ts/index.js'
import { anything, failureOf, rejectionOf } from '../failure.js'

const limiter = new RateLimiter(gcra({ limit: 10, period: '1s' }))

test.each<readonly [object, string]>([
  [{}, 'limiter must be a RateLimiter, got undefined'],
  [{ limiter: 'api' }, 'limiter must be a RateLimiter, got "api"'],
  [{ limiter, maxQueue: 5 }, 'OutgoingClient has no option "maxQueue"; did you mean "maxQueued"?'],
  [{ limiter, maxQueued: 0 }, 'maxQueued must be a whole number from 1 to 2^53 - 1, got 0'],
  [{ limiter, maxWait: '2d' }, 'maxWait must be a whole number from 0 to 86400000 milliseconds, got "2d"'],
  [{ limiter, retries: -1 }, 'retries.limit must be a whole number from 0 to 100, got -1'],
  [{ limiter, retries: { max: 3 } }, 'retries has no option "max"'],
  [{ limiter, retries: { minDelay: '1m' } }, 'retries.maxDelay must be at least minDelay and at most a day, got "30s"'],
  [{ limiter, retries: { minDelay: 'soon' } }, 'retries.minDelay must be a duration'],
  [{ limiter, retries: { budget: 0 } }, 'retries.budget must be a number above 0, or false, got 0'],
  [{ limiter, retries: { budget: true } }, 'retries.budget must be a number above 0, or false, got true'],
  [{ limiter, ageing: '2d' }, 'ageing must be from a millisecond to a day, got "2d"'],
  [{ limiter, attemptTimeout: 0 }, 'attemptTimeout must be a whole number from 1 to 86400000 milliseconds, got 0'],
  [{ limiter, attemptTimeoutMs: 5 }, 'OutgoingClient has no option "attemptTimeoutMs"; did you mean "attemptTimeout"?'],
  [{ limiter, refusalOf: '1s' }, 'refusalOf must be a function, got "1s"'],
  [{ limiter, shouldRetry: true }, 'shouldRetry must be a function, got true'],
  [{ limiter, pauseWhenEmpty: 1 }, 'pauseWhenEmpty must be true or false, got 1'],
  [{ limiter, holdUntil: 'end' }, `holdUntil must be 'body' or 'headers', got "end"`],
  [{ limiter, fetch: 7 }, 'fetch must be a function, got 7'],
  [
    { limiter, clock: 7 },
    'clock must be a function that returns milliseconds, or a TestClock of tollgate/testing, got 7',
  ],
])('%j', (options, message) => {
  const error = failureOf(() => new OutgoingClient(options as ClientOptions))
  expect([error.code, error.message]).toEqual(['INVALID_OPTION', expect.stringContaining(message)])
})

const api = new OutgoingClient({ limiter, key: 'k' })

test.each<readonly [object, string, string]>([
  [{ prio: 1 }, 'INVALID_OPTION', 'schedule has no option "prio"'],
  [{ maxWaitMs: 5 }, 'INVALID_OPTION', 'schedule has no option "maxWaitMs"; did you mean "maxWait"?'],
  [{ priority: 101 }, 'INVALID_OPTION', 'priority must be a whole number from -100 to 100, got 101'],
  [{ cost: 0 }, 'INVALID_COST', 'cost must be a whole number from 1'],
  [{ maxWait: -1 }, 'INVALID_OPTION', 'maxWait must be a whole number from 0'],
  [{ signal: 'stop' }, 'INVALID_OPTION', 'signal must be an AbortSignal'],
  [{ isIdempotent: 'yes' }, 'INVALID_OPTION', 'isIdempotent must be true or false'],
  [{ attemptTimeout: '2d' }, 'INVALID_OPTION', 'attemptTimeout must be a whole number from 1'],
  [{ shouldRetry: 1 }, 'INVALID_OPTION', 'shouldRetry must be a function, got 1'],
  [{ tier: 'pro' }, 'INVALID_OPTION', 'tier'],
  [{ key: '' }, 'INVALID_KEY', 'key'],
  [{ key: 7 }, 'INVALID_KEY', 'key'],
  [{ key: 7n }, 'INVALID_KEY', 'key must be a key of the limiter'],
])('schedule with %p', async (options, code, message) => {
  const error = await rejectionOf(api.schedule(() => {}, options as ScheduleOptions))
  expect([error.code, error.message]).toEqual([code, expect.stringContaining(message)])
  expect(api.status()).toEqual({ queued: 0, running: 0, isClosed: false })
})

test('a key is required, and so is a function', async () => {
  const error = await rejectionOf(new OutgoingClient({ limiter }).schedule(() => {}))
  expect([error.code, error.message]).toEqual([
    'INVALID_KEY',
    'key must be given, to schedule or to the client, got undefined',
  ])
  expect((await rejectionOf(api.schedule(anything('run')))).message).toBe('run must be a function, got "run"')
  expect(failureOf(() => api.wrap(anything('run'))).message).toBe('run must be a function, got "run"')
  expect(failureOf(() => api.on(anything('done'), () => {})).message).toContain('event must be one of start, end')
  expect(failureOf(() => api.on('end', anything(7))).message).toBe('listener must be a function, got 7')
  expect((await rejectionOf(api.close(anything({ timeoutMs: 5 })))).message).toContain(
    'close has no option "timeoutMs"; did you mean "timeout"?',
  )
  expect(api.status().isClosed).toBe(false)
})

test('the types follow the limiter', () => {
  const byParts = new RateLimiter({ ip: gcra({ limit: 1, period: '1s', per: 'ip' }) })
  const client = new OutgoingClient({ limiter: byParts, key: { ip: '192.0.2.1' } })
  // @ts-expect-error: a key has parts
  void client.schedule(() => {}, { key: 'a' }).catch(() => {})
  // @ts-expect-error: the limiter has no tiers
  void api.schedule(() => {}, { tier: 'pro' }).catch(() => {})
  const permits = new OutgoingClient({ limiter: new RateLimiter(concurrency({ limit: 1 })), key: 'k' })
  const number: Promise<number> = permits.schedule(async ({ signal }) => (signal.aborted ? 0 : 1))
  return expect(number).resolves.toBe(1)
})
