import {
  concurrency,
  type Duration,
  fixedWindow,
  gcra,
  parseDuration,
  RateLimiter,
  RedisStore,
} from '../../ts/index.js'

const durations: readonly [Duration, number][] = [
  [1, 1],
  [1.1, 1.1],
  [1234.567, 1234.567],
  ['500ms', 500],
  ['0.001ms', 0.001],
  ['0.3ms', 0.3],
  ['10s', 10_000],
  ['10 s', 10_000],
  ['1.5s', 1_500],
  ['1m', 60_000],
  ['1 minute', 60_000],
  ['10 minutes', 600_000],
  ['10minutes', 600_000],
  ['90 secs', 90_000],
  ['250 milliseconds', 250],
  ['1h', 3_600_000],
  ['2 hours', 7_200_000],
  ['1d', 86_400_000],
  ['1 day', 86_400_000],
  ['1w', 604_800_000],
  ['2 weeks', 1_209_600_000],
  ['30d', 2_592_000_000],
]

test.each(durations)('%p is %p ms', (duration, millis) => {
  expect(gcra({ limit: 1, period: duration }).period).toBe(millis)
  expect(parseDuration(duration)).toBe(millis)
})

test('a window shorter than a millisecond ends on the next whole millisecond', () => {
  const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '0.001ms' }))
  expect(limiter.takeSync('a').resetAfterMs).toBe(1)
})

test.each([0.001, 0.5, 0.999])('the bare number %p is rejected: it may be meant as seconds', (period) => {
  const rule = 'must be at least 1 millisecond if it is a bare number'
  const advice = `write '${period}s' if seconds are meant, and '${period}ms' if not`
  expect(() => gcra({ limit: 1, period })).toThrow(`gcra: period ${rule}, got ${period}: ${advice}`)
  expect(() => parseDuration(period)).toThrow(rule)
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1s' }))
  return Promise.all([
    expect(limiter.block('a', period)).rejects.toMatchObject({ code: 'INVALID_OPTION' }),
    expect(limiter.override('a', { period }, { ttl: '1h' })).rejects.toMatchObject({ code: 'INVALID_OPTION' }),
  ])
})

test.each([
  ['10', "did you mean '10s'?"],
  ['10S', "did you mean '10s'?"],
  ['10  seconds', "did you mean '10s'?"],
  ['minute', "did you mean '1m'?"],
  ['Hourly', undefined],
  ['1 fortnight', undefined],
  ['-5s', undefined],
  ['1m30s', undefined],
  ['PT1M', undefined],
  ['one minute', undefined],
  ['', undefined],
])('%p is no duration', (text, advice) => {
  const rule = "milliseconds or a string such as '500ms', '10s', '1m', '1h', '1d', '1w', got"
  const end = `${rule} ${JSON.stringify(text)}${advice === undefined ? '' : `: ${advice}`}`
  const error = expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining(end) })
  expect(() => parseDuration(text)).toThrow(error)
  expect(() => parseDuration(text)).not.toThrow(`${end}: `)
})

test('options in milliseconds also take durations', async () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1h' }))
  await limiter.wait('a', { maxWait: '1 minute' })
  await expect(limiter.wait('a', { maxWait: '1 minute' })).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
  const calls = new RateLimiter(concurrency({ limit: 1 }))
  await calls.acquire('a')
  expect((await calls.acquire('a', { maxWait: '20ms' })).allowed).toBe(false)
  await calls.close()
  const unreachable = 'redis://localhost:1'
  const store = new RedisStore({ url: unreachable, connectTimeout: '1s', commandTimeout: '20 ms' })
  const remote = new RateLimiter(gcra({ limit: 1, period: '1s' }), { store, prefix: 'durations' })
  await expect(remote.take('a')).rejects.toMatchObject({ charged: false })
  await store.close()
  expect(() => new RedisStore({ url: unreachable, commandTimeout: '1.5ms' })).toThrow(
    'commandTimeout must be a whole number from 1 to',
  )
})
