import { fixedWindow, gcra, type Policy, RateLimiter, RedisStore, tokenBucket } from '../../ts/index.js'
import type { Enforced } from '../../ts/policies/policy-set.js'
import { failureOf, rejectionOf } from '../failure.js'
import { warningsOf } from '../middleware/warnings.js'
import { DIFFERENCES } from '../policies/differences.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { PATIENT_MS } from './help.js'

let server: RedisServer

beforeAll(async () => {
  server = await RedisServer.start()
})

afterAll(async () => {
  await server.stop()
})

async function withStore<T>(run: (store: RedisStore) => Promise<T>): Promise<T> {
  const store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  try {
    return await run(store)
  } finally {
    await store.close()
  }
}

const POLICIES: readonly Policy[] = [
  fixedWindow({ limit: 3, window: '1h' }),
  tokenBucket({ capacity: 3, refill: { tokens: 1, every: '1h' } }),
  gcra({ limit: 3, period: '1h' }),
]

describe.each(POLICIES)('$algorithm', (policy) => {
  const prefix = `ops-${policy.algorithm}`

  test('take, takeMany, peek and reset', async () => {
    await withStore(async (store) => {
      const limiter = new RateLimiter(policy, { store, prefix })
      await limiter.ready()
      expect(await limiter.take('a', 2)).toMatchObject({ status: 'allowed', limit: 3, remaining: 1, source: 'store' })
      expect(await limiter.peek('a')).toMatchObject({ status: 'allowed-last', remaining: 1 })
      expect(await limiter.peek('a', 2)).toMatchObject({ status: 'refused', remaining: 1 })
      expect(await limiter.peek('a', 4)).toMatchObject({ status: 'impossible', retryAfterMs: null })
      const many = await limiter.takeMany(['a', 'b', 'a', 'b'], [1, 3, 1, 4])
      expect(many.map(({ status }) => status)).toEqual(['allowed-last', 'allowed-last', 'refused', 'impossible'])
      const refused = await limiter.take('a')
      expect(refused.retryAfterMs).toBeGreaterThan(3_590_000 / 3)
      await limiter.reset('a')
      expect(await limiter.peek('a', 0)).toMatchObject({ remaining: 3, resetAfterMs: 0 })
    })
  })

  test('calls of one tick are decided in call order, and 64 on one key admit the limit', async () => {
    await withStore(async (store) => {
      const limiter = new RateLimiter(policy, { store, prefix })
      const calls = Array.from({ length: 64 }, () => limiter.take('hot'))
      const statuses = (await Promise.all(calls)).map(({ status }) => status)
      expect(statuses.slice(0, 3)).toEqual(['allowed', 'allowed', 'allowed-last'])
      expect(statuses.slice(3).every((status) => status === 'refused')).toBe(true)
    })
  })
})

test('processes share the counts: two stores have one count', async () => {
  const policy = fixedWindow({ limit: 2, window: '1h' })
  await withStore(async (one) => {
    await withStore(async (other) => {
      const limiters = [one, other].map((store): RateLimiter => new RateLimiter(policy, { store, prefix: 'shared' }))
      const [first, second] = limiters as [RateLimiter, RateLimiter]
      expect((await first.take('a')).remaining).toBe(1)
      expect((await second.take('a')).remaining).toBe(0)
    })
  })
})

test("Redis's clock decides, whatever the local clock says", async () => {
  const now = jest.spyOn(Date, 'now').mockReturnValue(0)
  try {
    await withStore(async (store) => {
      const limiter = new RateLimiter(gcra({ limit: 1, period: '1h' }), { store, prefix: 'clock' })
      expect((await limiter.take('a')).at).toBeGreaterThan(Date.UTC(2026, 0, 1))
    })
  } finally {
    now.mockRestore()
  }
})

test('hostile strings are distinct keys, and invalid keys fail immediately', async () => {
  await withStore(async (store) => {
    const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1h' }), { store, prefix: 'keys' })
    const keys = ['\0', '\r\n', '{a}', '%7Ba%7D', 'a}', '}a{', '%', '__proto__', '👩‍👩‍👧', '\ufffd', 'x'.repeat(1_024)]
    for (const allowed of [true, false]) {
      const decisions = await limiter.takeMany(keys)
      expect(decisions.map((decision) => decision.allowed)).toEqual(keys.map(() => allowed))
    }
    for (const key of ['', 'x'.repeat(1_025), '\ud800', 7 as never]) {
      await expect(limiter.take(key)).rejects.toMatchObject({ code: 'INVALID_KEY' })
      await expect(limiter.peek(key)).rejects.toMatchObject({ code: 'INVALID_KEY' })
      await expect(limiter.reset(key)).rejects.toMatchObject({ code: 'INVALID_KEY' })
    }
    const error = await rejectionOf(limiter.takeMany(['fresh', '']))
    expect(error).toMatchObject({ code: 'INVALID_KEY', results: [{ allowed: true }, { code: 'INVALID_KEY' }] })
  })
})

test('limiters with the same URL share a connection, which closes with the last of them', async () => {
  const [one, other] = ['one', 'other'].map(
    (prefix): RateLimiter =>
      new RateLimiter(gcra({ limit: 1, period: '1h' }), { store: server.url, prefix: `url-${prefix}` }),
  ) as [RateLimiter, RateLimiter]
  await Promise.all([one.take('a'), other.take('a')])
  const clients = async () =>
    (await server.command<string>('CLIENT', 'LIST')).split('\n').filter((line) => line.includes('id=')).length
  const before = await clients()
  await one.close()
  await one.close()
  expect((await other.take('b')).allowed).toBe(true)
  await other.close()
  await until('their connection is closed', async () => (await clients()) === before - 1)
})

test('a closed limiter and a closed store refuse calls with CLOSED', async () => {
  const store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(gcra({ limit: 9, period: '1h' }), { store, prefix: 'closed' })
  const calls = Array.from({ length: 5 }, () => limiter.take('a'))
  await store.close()
  await store.close()
  expect((await Promise.all(calls)).every(({ allowed }) => allowed)).toBe(true)
  await expect(limiter.take('a')).rejects.toMatchObject({ code: 'CLOSED' })
  await expect(limiter.peek('a')).rejects.toMatchObject({ code: 'CLOSED' })
  expect(failureOf(() => new RateLimiter(gcra({ limit: 1, period: 1 }), { store, prefix: 'late' })).code).toBe('CLOSED')
})

test('closing a store waits for every kind of pending call, and refuses every kind of new one', async () => {
  const store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(gcra({ limit: 9, period: '1h' }), { store, prefix: 'closing' })
  await limiter.ready()
  const underWay = Promise.allSettled([limiter.take('z'), limiter.peek('a'), limiter.reset('b')])
  const closing = store.close()
  await expect(limiter.peek('a')).rejects.toMatchObject({ code: 'CLOSED' })
  await expect(limiter.reset('a')).rejects.toMatchObject({ code: 'CLOSED' })
  await closing
  expect((await underWay).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
})

test("errors have the option's name, value and rule, and no password", () => {
  const policy = gcra({ limit: 1, period: 1 })
  const of = (options: unknown) => failureOf(() => new RedisStore(options as string))
  expect(of('http://user:hunter2@localhost').message).toMatch(/^url must be a Redis URL: redis:\/\//)
  expect(of(5).message).toMatch(/RedisStore takes a URL or an object of options, got a port: /)
  expect(of({}).message).toMatch(/needs exactly one of url, host, path, sentinel, cluster, got none/)
  expect(of({ url: server.url, comandTimeout: 5 }).message).toMatch(/has no option "comandTimeout"/)
  for (const name of ['connectTimeout', 'commandTimeout', 'idleCheck']) {
    const { message } = of({ url: server.url, [`${name}Ms`]: 5_000 })
    expect(message).toContain(`has no option "${name}Ms"; did you mean "${name}"?`)
  }
  expect(of({ url: server.url, commandTimeout: 0 }).message).toMatch(/^commandTimeout must be a whole number/)
  expect(of({ url: server.url, connectTimeout: '1.5ms' }).message).toMatch(/^connectTimeout must be a whole number/)
  expect(of({ url: server.url, maxPending: -1 }).message).toMatch(/^maxPending must be a whole number/)
  const missing = failureOf(() => new RateLimiter(policy, { store: server.url } as never))
  expect(missing).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^prefix is required with Redis/),
  })
})

test('one prefix with other numbers warns', async () => {
  await withStore(async (store) => {
    const open = (limit: number) => new RateLimiter(gcra({ limit, period: '1h' }), { store, prefix: 'loaded-again' })
    const differing = new Promise((resolve) => {
      store.on('warning', (warning) => warning.code === 'POLICIES_DIFFER' && resolve(warning))
    })
    const warnings = await warningsOf(async () => {
      const earlier = open(1)
      expect((await earlier.take('a')).limit).toBe(1)
      expect((await open(2).take('a')).limit).toBe(2)
      expect((await earlier.take('a')).limit).toBe(1)
    })
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_OTHER_NUMBERS'])
    expect(await differing).toMatchObject({ prefix: 'loaded-again', sharesStates: true })
  })
})

test('one prefix with two algorithms, and takeSync over Redis, are refused', async () => {
  await withStore(async (store) => {
    const limiter = new RateLimiter(gcra({ limit: 1, period: '1h' }), { store, prefix: 'taken' })
    const again = () => new RateLimiter(fixedWindow({ limit: 2, window: '1h' }), { store, prefix: 'taken' })
    expect(failureOf(again)).toMatchObject({ code: 'INVALID_OPTION' })
    expect(failureOf(() => (limiter as never as { takeSync(key: string): void }).takeSync('a')).message).toBe(
      'takeSync needs the embedded store: over Redis, await take',
    )
    await limiter.close()
    expect((await again().take('a')).limit).toBe(2)
  })
})

test.each(DIFFERENCES)(
  'one prefix is refused as by update, without a warning: %s',
  async (difference, earlier, later) => {
    await withStore(async (store) => {
      const open = (policies: Enforced) => new RateLimiter(policies, { store, prefix: 'kinds' })
      const warnings = await warningsOf(async () => {
        const limiter = open(earlier)
        const rule = 'is in use on this store by a limiter whose policies differ in more than numbers'
        expect(failureOf(() => open(later))).toMatchObject({
          code: 'INVALID_OPTION',
          message: `prefix "kinds" ${rule}: ${difference}; close it, or use another prefix`,
        })
        // As when a module is loaded again.
        await open(earlier).close()
        await limiter.close()
        await open(later).close()
      })
      expect(warnings).toEqual([])
    })
  },
)

test('limiters of one prefix and policy share their counts, also in one tick, and in call order', async () => {
  await withStore(async (store) => {
    for (const policy of POLICIES) {
      const prefix = `shared-${policy.algorithm}`
      const [one, other] = [0, 1].map(() => new RateLimiter(policy, { store, prefix })) as [RateLimiter, RateLimiter]
      await one.take('known')
      for (const key of ['new', 'known']) {
        const calls = await Promise.all([one.take(key), other.take(key), one.take(key), other.take(key)])
        const admitted = key === 'new' ? 3 : 2
        expect(calls.filter(({ allowed }) => allowed)).toHaveLength(admitted)
        expect(calls.map(({ remaining }) => remaining)).toEqual([admitted - 1, admitted - 2, 0, 0])
      }
      await one.close()
      expect((await other.take('known')).allowed).toBe(false)
      await other.close()
    }
  })
})
