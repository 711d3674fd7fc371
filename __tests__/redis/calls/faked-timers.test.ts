/** Tests of users with fake timers: calls proceed, and keep their deadlines. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gcra, RateLimiter, RedisStore } from '../../../ts/index.js'
import { timers } from '../../../ts/platform/timers.js'
import { FRAMEWORKS } from '../../middleware/frameworks.js'
import { RedisServer } from '../../servers/redis-server.js'
import { recovery } from '../help.js'
import { openedRedis } from '../opened.js'
import { withFakedTimers } from '../programs/with-faked-timers.js'

const ROOT = join(__dirname, '..', '..', '..')

const opened = openedRedis()

test('the global timers are fake, and those of the package are not', async () => {
  await withFakedTimers(async () => {
    let rang = false
    setTimeout(() => {
      rang = true
    }, 1)
    const [fakeStart, start] = [performance.now(), timers.now()]
    await new Promise<void>((resolve) => timers.setTimeout(resolve, 20))
    expect(rang).toBe(false)
    expect(performance.now()).toBe(fakeStart)
    expect(timers.now()).toBeGreaterThan(start)
  })
})

test('a call is decided', async () => {
  const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store: opened.store, prefix: 'faked' })
  const decisions = await withFakedTimers(async () => [
    await limiter.take('a'),
    ...(await limiter.takeMany(['a', 'b'])),
  ])
  expect(decisions.map(({ status }) => status)).toEqual(['allowed', 'allowed-last', 'allowed'])
})

// promise: faked-timers
test('a call that Redis does not answer fails by its deadline', async () => {
  const server = await RedisServer.start()
  const store = new RedisStore({ url: server.url, commandTimeout: 5_000 })
  try {
    const limiter = new RateLimiter(gcra({ limit: 2, period: '1h' }), { store, prefix: 'faked' })
    await recovery(limiter, 'a')
    server.freeze()
    const error = await withFakedTimers(() => limiter.take('a').catch((error: unknown) => error))
    expect(error).toMatchObject({ code: 'STORE_TIMEOUT', charged: 'unknown' })
  } finally {
    await store.close()
    await server.stop()
  }
})

/** Calls of each kind by a copy of the package, until their ends. */
async function callAll(
  { gcra, concurrency, RateLimiter, RedisStore }: typeof import('../../../ts/index.js'),
  url: string,
) {
  const store = new RedisStore({ url, commandTimeout: 5_000 })
  const limiter = new RateLimiter(gcra({ limit: 20, period: '1s', burst: 1 }), { store, prefix: 'before' })
  const permits = new RateLimiter(concurrency({ limit: 1 }), { store, prefix: 'permits' })
  const held = await permits.acquire('a')
  const statuses = [
    (await limiter.take('a')).status,
    ...(await limiter.takeMany(['b', 'c'])).map(({ status }) => status),
    (await limiter.wait('a')).status,
    (await permits.acquire('a', { maxWait: 20 })).decision.status,
    held.decision.status,
  ]
  await Promise.all([limiter.close(), permits.close()])
  await store.close()
  const away = new RedisStore({ url: 'redis://127.0.0.1:9', commandTimeout: 50 })
  const error = await new RateLimiter(gcra({ limit: 1, period: '1s' }), { store: away, prefix: 'away' })
    .take('a')
    .catch(({ code }) => code)
  await away.close()
  return [...statuses, error]
}

const ENDS = [
  'allowed-last',
  'allowed-last',
  'allowed-last',
  'allowed-last',
  'refused',
  'allowed-last',
  'STORE_UNAVAILABLE',
]

// promise: faked-timers
test.each([false, true])(
  'with timers that are faked before the package is loaded, calls end: legacy %p',
  async (legacyFakeTimers) => {
    await using server = await RedisServer.start()
    jest.useFakeTimers({ legacyFakeTimers } as never)
    try {
      let loaded: typeof import('../../../ts/index.js') | undefined
      jest.isolateModules(() => {
        loaded = require('../../../ts/index.js')
      })
      expect(await callAll(loaded as NonNullable<typeof loaded>, server.url)).toEqual(ENDS)
    } finally {
      jest.useRealTimers()
    }
  },
)

// promise: faked-timers
test('also if node:timers is faked, as by Vitest', async () => {
  await using server = await RedisServer.start()
  const program = `
    require('@sinonjs/fake-timers').install()
    ${callAll}
    callAll(require(${JSON.stringify(ROOT)}), '${server.url}').then((ends) => console.log(JSON.stringify(ends)))
  `
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', program], { cwd: join(ROOT, '__tests__') })
  expect(JSON.parse(stdout)).toEqual(ENDS)
})

test('a wait ends at its slot', async () => {
  const pacer = new RateLimiter(gcra({ limit: 20, period: '1s', burst: 1 }))
  const start = timers.now()
  const [, { waitedMs }] = await withFakedTimers(() => Promise.all([pacer.wait('a'), pacer.wait('a')]))
  expect(waitedMs).toBeGreaterThan(0)
  expect(timers.now() - start).toBeGreaterThanOrEqual(waitedMs)
})

test.each(FRAMEWORKS.map((framework) => [framework.name, framework] as const))(
  'a middleware decides, refuses, and refunds: %s',
  async (name, framework) => {
    const policy = gcra({ limit: 1, period: '1h', burst: 2 })
    const limiter = new RateLimiter(policy, { store: opened.store, prefix: 'faked-middleware' })
    const key = (...args: unknown[]) => `${name} ${framework.header(args, 'x-user')}`
    const served = await framework.serve({
      options: { limiter, key, refundWhen: 'failed' },
      route: async (path) => ({ status: path === '/missing' ? 404 : 200, body: path }),
    })
    try {
      const get = async (path: string) => {
        const response = await fetch(served.url + path, { headers: { 'x-user': 'ann' } })
        await response.arrayBuffer()
        return response.status
      }
      const remaining = async () => (await limiter.peek(`${name} ann`)).remaining
      await withFakedTimers(async () => {
        expect([await get('/missing'), await get('/')]).toEqual([404, 200])
        // The first request is refunded after its response has ended, which no event signals.
        for (let time = 0; time < 1_500 && (await remaining()) !== 1; time++) {
          await new Promise<void>((resolve) => timers.setTimeout(resolve, 20))
        }
        expect([await get('/'), await get('/')]).toEqual([200, 429])
      })
    } finally {
      await served.close()
    }
  },
)
