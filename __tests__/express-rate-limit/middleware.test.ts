/** The real express-rate-limit on Express 5 with TollgateStore, over real HTTP. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Request, RequestHandler, Response } from 'express'
import { rateLimit, MemoryStore as TheirStore } from 'express-rate-limit'
import { MemoryStore as TheirStore7 } from 'express-rate-limit-7'
import { MemoryStore, RedisStore } from '../../ts/index.js'
import { TollgateStore } from '../../ts/middleware/express-rate-limit.js'
import { warningsOf as processWarningsOf } from '../middleware/warnings.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { App } from './app.js'
import { describeEach } from './stores.js'

/** Answers by the path of the request. */
const answers: RequestHandler = async (req, res) => {
  switch (req.get('x-client')) {
    case 'fails':
      res.status(500).send('no')
      return
    case 'never':
      return
    default:
      res.send('hello')
  }
}

describeEach((backend) => {
  let store: TollgateStore
  beforeEach(() => {
    store = backend.store()
  })
  afterEach(() => store.shutdown())

  test.each([8, 7] as const)(
    'version %i: admits exactly the limit, with exact headers; refused calls count; clients have separate counts',
    async (version) => {
      await using app = await App.start(store, { limit: 3, version })
      for (const remaining of [2, 1, 0]) {
        expect(await app.get()).toMatchObject({ status: 200, limit: 3, remaining })
      }
      const refused = await app.get()
      expect(refused).toMatchObject({ status: 429, limit: 3, remaining: 0 })
      expect(refused.retryAfter).toBe(60)
      expect(refused.reset * 1_000).toBe(backend.now() + 60_000)
      expect((await store.get('ann'))?.totalHits).toBe(4)
      expect((await app.get('bob')).status).toBe(200)
      expect(app.logged).toEqual([])
    },
  )

  test.each([8, 7] as const)(
    'version %i: requests without a key share one limit, as with its default store',
    async (version) => {
      const own = version === 8 ? new TheirStore() : new TheirStore7()
      const warnings = await processWarningsOf(async () => {
        for (const one of [store, own as unknown as TollgateStore]) {
          const keyGenerator = (() => undefined) as unknown as () => string
          await using app = await App.start(one, { limit: 1, version, keyGenerator })
          expect([(await app.get()).status, (await app.get()).status]).toEqual([200, 429])
          expect(app.logged).toEqual([])
        }
      })
      expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_INVALID_INPUT'])
    },
  )

  test('after the reset time clients are admitted again', async () => {
    await using app = await App.start(store, { limit: 1, windowMs: 2_000 })
    expect((await app.get()).status).toBe(200)
    await backend.pass(1_999)
    expect((await app.get()).status).toBe(429)
    await backend.pass(1)
    expect((await app.get()).status).toBe(200)
    expect((await app.get()).status).toBe(429)
  })

  test.each(['draft-6', 'draft-7', 'draft-8'] as const)('the standard headers of %s', async (standardHeaders) => {
    await using app = await App.start(store, { limit: 5, standardHeaders, legacyHeaders: false })
    const { headers } = await app.fetch('ann')
    const fields = [...headers].filter(([name]) => name.startsWith('ratelimit')).map((field) => field.join(': '))
    const text = fields.join('\n')
    const expected = {
      'draft-6': 'ratelimit-limit: 5\nratelimit-policy: 5;w=60\nratelimit-remaining: 4\nratelimit-reset: 60',
      'draft-7': 'ratelimit: limit=5, remaining=4, reset=60\nratelimit-policy: 5;w=60',
      'draft-8': expect.stringMatching(
        /^ratelimit: "5-in-1min"; r=4; t=60\nratelimit-policy: "5-in-1min"; q=5; w=60; pk=:.*:$/,
      ),
    }[standardHeaders]
    expect(text).toEqual(expected)
    expect(app.logged).toEqual([])
  })

  test.each([8, 7] as const)('version %i, skipFailedRequests: failures and aborts are not counted', async (version) => {
    await using app = await App.start(store, { limit: 2, skipFailedRequests: true, version }, answers)
    const hits = async (client: string) => (await store.get(client))?.totalHits ?? 0
    for (let time = 0; time < 3; time++) {
      expect((await app.get('fails')).status).toBe(500)
      await until('it is taken back', async () => (await hits('fails')) === 0)
    }
    const abort = new AbortController()
    const aborted = app.fetch('never', { signal: abort.signal }).catch(() => 'aborted')
    await until('it has been counted', async () => (await hits('never')) === 1)
    abort.abort()
    expect(await aborted).toBe('aborted')
    await until('it is taken back', async () => (await hits('never')) === 0)
    for (const status of [200, 200, 429]) expect((await app.get('ann')).status).toBe(status)
    expect(app.logged).toEqual([])
  })

  test('skipSuccessfulRequests: successes are not counted', async () => {
    await using app = await App.start(store, { limit: 1, skipSuccessfulRequests: true }, answers)
    for (let time = 0; time < 3; time++) {
      expect((await app.get('ann')).status).toBe(200)
      await until('it is taken back', async () => (await store.get('ann')) === undefined)
    }
    expect((await app.get('fails')).status).toBe(500)
    expect((await app.get('fails')).status).toBe(429)
  })

  test('resetKey and getKey of the middleware', async () => {
    const middleware = rateLimit({ store, limit: 1 })
    await store.increment('ann')
    expect((await middleware.getKey('ann'))?.totalHits).toBe(1)
    await (middleware.resetKey('ann') as unknown as Promise<void>)
    expect(await middleware.getKey('ann')).toBeUndefined()
  })
})

/** The validation errors of rateLimit() if two middlewares with these stores count one request. */
async function warningsOf(stores: readonly TollgateStore[]): Promise<unknown[]> {
  const codes: unknown[] = []
  const log = (error: unknown) => codes.push((error as { code?: string }).code)
  const request = { app: {}, headers: {} } as unknown as Request
  const response = { headersSent: true } as Response
  for (const store of stores) {
    const logger = { error: log, warn: log }
    await rateLimit({ store, logger, limit: 9, keyGenerator: () => 'ann' })(request, response, (error) => {
      expect(error).toBeUndefined()
    })
  }
  return codes
}

test('rateLimit() detects requests that are counted twice, and stores that are used twice', async () => {
  const store = new MemoryStore()
  const [api, again, web] = ['api', 'api', 'web'].map((prefix) => new TollgateStore({ store, prefix }))
  const stores = (...some: unknown[]) => some as TollgateStore[]
  expect(await warningsOf(stores(api, web))).toEqual([])
  expect(await warningsOf(stores(web, again))).toEqual(['ERR_ERL_STORE_REUSE'])
  const more = () => new TollgateStore({ store, prefix: 'api' })
  expect(await warningsOf([more(), more()])).toEqual(['ERR_ERL_DOUBLE_COUNT'])
  // Each with its own store.
  expect(await warningsOf([new TollgateStore(), new TollgateStore()])).toEqual([])
})

test('while Redis is away passOnStoreError decides the answer, and afterwards it recovers', async () => {
  await using server = await RedisServer.start()
  await using redis = new RedisStore({ url: server.url, commandTimeout: 5_000 })
  const begun = [true, false].map((passOnStoreError) => {
    const store = new TollgateStore({ store: redis, prefix: `passes-${passOnStoreError}` })
    return App.start(store, { limit: 1, passOnStoreError })
  })
  await using passing = await (begun[0] as Promise<App>)
  await using failing = await (begun[1] as Promise<App>)
  const statuses = () => Promise.all([passing, failing].map(async (app) => (await app.get()).status))
  expect(await statuses()).toEqual([200, 200])
  expect(await statuses()).toEqual([429, 429])
  await server.kill()
  expect(await statuses()).toEqual([200, 503])
  await until('the store is down', async () => redis.status().state === 'down')
  expect(await statuses()).toEqual([200, 503])
  // Express sends the stack of an error, unless it is in production.
  const body = await (await failing.fetch('ann')).text()
  expect(body).toContain('Service unavailable, please try again later.')
  expect(body).not.toMatch(new RegExp(`127\\.0\\.0\\.1|${new URL(server.url).port}|Redis`))
  // Its validation of hits needs answers, and there was none.
  const codes = (app: App) => (app.logged as { code?: string }[]).map(({ code }) => code)
  expect(codes(passing)).toEqual(['STORE_UNAVAILABLE', 'STORE_UNAVAILABLE'])
  expect(codes(failing)).toEqual([])
  await server.begin()
  await until('the store is up', async () => redis.status().state === 'up')
  // The server is empty after the restart.
  expect(await statuses()).toEqual([200, 200])
  expect(await statuses()).toEqual([429, 429])
})

test.each([8, 7] as const)(
  'version %i: a hit that cannot be decremented stays counted, and does not crash the process',
  async (version) => {
    await using server = await RedisServer.start()
    await using redis = new RedisStore({ url: server.url, commandTimeout: 30_000 })
    const allowScripts = (sign: '+' | '-') =>
      server.command('ACL', 'SETUSER', 'default', `${sign}evalsha`, `${sign}eval`)
    const store = new TollgateStore({ store: redis, prefix: 'api' })
    // An unhandled rejection would fail the test by itself.
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {})
    try {
      const refuses: RequestHandler = async (_req, res) => {
        await allowScripts('-')
        res.status(500).send('no')
      }
      await using app = await App.start(store, { limit: 9, skipFailedRequests: true, version }, refuses)
      expect((await app.get()).status).toBe(500)
      await until('the warning', async () => warn.mock.calls.length > 0)
      // One warning, until it works again.
      await store.decrement('ann')
      await allowScripts('+')
      expect((await store.get('ann'))?.totalHits).toBe(1)
      await store.decrement('ann')
      expect(await store.get('ann')).toBeUndefined()
      expect(warn.mock.calls).toEqual([
        [expect.stringMatching(/^a hit was not/), expect.objectContaining({ code: 'TOLLGATE_DECREMENT' })],
      ])
    } finally {
      warn.mockRestore()
    }
  },
)

test('processes on one Redis share their counts exactly', async () => {
  await using server = await RedisServer.start()
  const work = { url: server.url, limit: 100, requests: 60 }
  const children = Array.from({ length: 3 }, () => fork(`${__dirname}/process.mjs`, [JSON.stringify(work)]))
  const statuses = await Promise.all(
    children.map(async (child) => {
      const [[report]] = await Promise.all([once(child, 'message'), once(child, 'exit')])
      expect(child.exitCode).toBe(0)
      return report as number[]
    }),
  )
  const all = statuses.flat()
  expect(all.filter((status) => status === 200)).toHaveLength(100)
  expect(all.filter((status) => status === 429)).toHaveLength(80)
})
