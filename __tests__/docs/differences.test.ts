/** docs/migrating.md: tests of the marked differences, against the real packages. */
import { Ratelimit } from '@upstash/ratelimit'
import Bottleneck from 'bottleneck'
import express from 'express'
import * as expressRateLimit from 'express-rate-limit'
import { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes, RateLimiterUnion } from 'rate-limiter-flexible'
import {
  type Decision,
  fixedWindow,
  gcra,
  MemoryStore,
  RateLimiter,
  RedisStore,
  slidingCounter,
  slidingLog,
} from '../../ts/index.js'
import { rateLimit } from '../../ts/middleware/express.js'
import { rejectionOf } from '../failure.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import type { Block } from './pages.js'
import { type Exports, serveExpress, serveNest, statusesOf, upstashOver } from './peers.js'
import { run } from './run.js'

let server: RedisServer
let redis: Redis
let store: RedisStore

beforeAll(async () => {
  server = await RedisServer.start()
  redis = new Redis(server.url)
  store = new RedisStore({ url: server.url, commandTimeout: 300 })
})

/** Apps that are closed after the test, whether it passes or fails. */
const served: { close(): Promise<unknown> }[] = []

async function closedAfterwards<T extends { close(): Promise<unknown> }>(serving: Promise<T>): Promise<T> {
  served.push(await serving)
  return serving
}

beforeEach(() => server.command('FLUSHALL'))

afterEach(() => Promise.all(served.splice(0).map((app) => app.close())))

afterAll(async () => {
  await store.close()
  redis.disconnect()
  await server.stop()
})

/** Whether a promise of rate-limiter-flexible resolved, as admitted calls do. */
const isAdmitted = (consumed: Promise<unknown>) =>
  consumed.then(
    () => true,
    (reason) => {
      expect(reason).not.toBeInstanceOf(Error)
      return false
    },
  )

describe('rate-limiter-flexible', () => {
  test('charges refused calls; tollgate charges them nothing', async () => {
    const theirs = new RateLimiterMemory({ points: 5, duration: 60 })
    expect(await isAdmitted(theirs.consume('ann', 4))).toBe(true)
    expect(await isAdmitted(theirs.consume('ann', 3))).toBe(false)
    expect(await isAdmitted(theirs.consume('ann', 1))).toBe(false)
    expect(await theirs.consume('ann', 1).catch((reason: unknown) => reason)).toBeInstanceOf(RateLimiterRes)

    const ours = new RateLimiter(fixedWindow({ limit: 5, window: '60s' }))
    expect((await ours.take('ann', 4)).allowed).toBe(true)
    expect((await ours.take('ann', 3)).allowed).toBe(false)
    expect((await ours.take('ann', 1)).allowed).toBe(true)
  })

  test('charges all limiters of a union; tollgate charges all policies or none', async () => {
    const few = new RateLimiterMemory({ keyPrefix: 'few', points: 3, duration: 60 })
    const many = new RateLimiterMemory({ keyPrefix: 'many', points: 10, duration: 60 })
    const union = new RateLimiterUnion(few, many)
    const ours = new RateLimiter({
      few: fixedWindow({ limit: 3, window: '60s' }),
      many: fixedWindow({ limit: 10, window: '60s' }),
    })
    for (let call = 0; call < 10; call++) {
      await isAdmitted(union.consume('ann'))
      await ours.take('ann')
    }
    expect((await many.get('ann'))?.remainingPoints).toBe(0)
    expect((await ours.peek('ann')).policies.many.remaining).toBe(7)
  })

  test('never ends a duration below a second over Redis', async () => {
    const theirs = new RateLimiterRedis({ storeClient: redis, keyPrefix: 'theirs', points: 1, duration: 0.5 })
    await theirs.consume('ann')
    expect(await redis.pttl('theirs:ann')).toBe(-1)

    const ours = new RateLimiter(fixedWindow({ limit: 1, window: '500ms' }), { store, prefix: 'ours' })
    const { resetAfterMs } = await ours.take('ann')
    expect(resetAfterMs).toBeLessThan(600)
    await ours.close()
  })
})

test('express-rate-limit counts refused requests, and has other header fields', async () => {
  const used: number[] = []
  const decisions: Decision<'default'>[] = []
  const theirs = express()
  const handler = (request: express.Request, response: express.Response) => {
    used.push((request as unknown as { rateLimit: { used: number } }).rateLimit.used)
    response.sendStatus(429)
  }
  theirs.use(expressRateLimit.rateLimit({ limit: 1, handler }))
  theirs.get('/', (_request, response) => void response.sendStatus(200))
  const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1m' }))
  const ours = express()
  ours.use(rateLimit({ limiter }))
  ours.get('/', (request, response) => {
    decisions.push((request as unknown as { rateLimit: Decision<'default'> }).rateLimit)
    response.sendStatus(200)
  })
  const [there, here] = await Promise.all([
    closedAfterwards(serveExpress(theirs)),
    closedAfterwards(serveExpress(ours)),
  ])

  const fields = await Promise.all([there, here].map(async ({ url }) => [...(await fetch(url)).headers.keys()]))
  expect(fields.map((names) => names.filter((name) => name.includes('ratelimit')))).toEqual([
    ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'],
    ['ratelimit', 'ratelimit-policy'],
  ])
  expect(await statusesOf(there.url, 2)).toEqual([429, 429])
  expect(await statusesOf(here.url, 2)).toEqual([429, 429])
  expect(used).toEqual([2, 3])
  expect(await limiter.refund(decisions[0] as Decision<'default'>)).toBe(1)
  expect(await statusesOf(here.url, 2)).toEqual([200, 429])
})

describe('@upstash/ratelimit', () => {
  const over = (limiter: ReturnType<typeof Ratelimit.fixedWindow>, prefix: string, timeout = 5000) =>
    new Ratelimit({ redis: upstashOver(redis), limiter, prefix, ephemeralCache: false, timeout })

  test.each(['fixedWindow', 'slidingWindow'] as const)('charges a cost that does not fit, under %s', async (name) => {
    const theirs = over(Ratelimit[name](10, '1 d'), name)
    await theirs.limit('ann', { rate: 9 })
    expect((await theirs.limit('ann', { rate: 5 })).success).toBe(false)
    expect((await theirs.limit('ann', { rate: 1 })).success).toBe(false)

    const policy = { fixedWindow, slidingWindow: slidingCounter }[name]
    const ours = new RateLimiter(policy({ limit: 10, window: '1d' }), { store, prefix: name })
    await ours.take('ann', 9)
    expect((await ours.take('ann', 5)).allowed).toBe(false)
    expect((await ours.take('ann', 1)).allowed).toBe(true)
    await ours.close()
  })

  test('allows calls without an answer in time; tollgate reports a failure', async () => {
    const theirs = over(Ratelimit.fixedWindow(10, '1 d'), 'frozen', 300)
    const ours = new RateLimiter(gcra({ limit: 10, period: '1d' }), { store, prefix: 'frozen' })
    await ours.take('ann')
    server.freeze()
    try {
      const [answer, failure] = await Promise.all([theirs.limit('ann'), ours.take('ann').catch((error) => error)])
      expect(answer).toMatchObject({ success: true, reason: 'timeout' })
      expect(failure).toMatchObject({ code: 'STORE_TIMEOUT' })
    } finally {
      server.thaw()
    }
    await ours.close()
  })
})

test('bottleneck has an unlimited queue; tollgate refuses calls that would wait too long', async () => {
  const theirs = new Bottleneck({ minTime: 60_000 })
  const jobs = Array.from({ length: 5 }, () => theirs.schedule(async () => {}).catch(() => 'dropped'))
  await jobs[0]
  const waiting = await until('five jobs, one of them done', async () => {
    const { RECEIVED, QUEUED, RUNNING, EXECUTING } = theirs.counts()
    return EXECUTING === 0 && RECEIVED + QUEUED + RUNNING
  })
  expect(waiting).toBe(4)
  await theirs.stop()
  expect(await Promise.all(jobs.slice(1))).toEqual(Array(4).fill('dropped'))

  const ours = new RateLimiter(gcra({ limit: 1, period: '1m', burst: 1 }))
  await ours.wait('api')
  const refused = await rejectionOf(ours.wait('api'))
  expect(refused.code).toBe('WAIT_TOO_LONG')
  expect(refused.decision?.retryAfterMs).toBeGreaterThan(30_000)
})

describe('@nestjs/throttler', () => {
  /** An app of two routes, under a module. */
  const app = async (imports: string, modules: Readonly<Record<string, unknown>> = {}) => {
    const code = `
      import { Controller, Get, Module } from '@nestjs/common'
      import { APP_GUARD } from '@nestjs/core'
      import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler'
      import { RateLimitModule } from 'tollgate/nest'
      import { limiter } from 'given'

      @Controller()
      class AppController {
        @Get('a') a() { return 'a' }
        @Get('b') b() { return 'b' }
      }

      @Module({ ${imports}, controllers: [AppController] })
      export class AppModule {}`
    const block: Block = { page: 'app', line: 1, language: 'ts', code, given: [] }
    const { exports } = await run<Required<Exports>>(block, { modules: { given: { limiter: undefined }, ...modules } })
    return closedAfterwards(serveNest(exports.AppModule))
  }

  const theirs = (throttlers: string) =>
    app(
      `imports: [ThrottlerModule.forRoot(${throttlers})], providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }]`,
    )

  const ours = (limiter: unknown) => app('imports: [RateLimitModule.forRoot({ limiter })]', { given: { limiter } })

  afterEach(() => {
    jest.useRealTimers()
  })

  /**
   * Makes the clock stand still, and returns a function that advances it and then returns the statuses
   * of both apps. The timers of the platform go on.
   */
  const onFakeClock = async (...apps: readonly Promise<{ readonly url: string }>[]) => {
    const urls = (await Promise.all(apps)).map(({ url }) => `${url}/a`)
    const doNotFake = ['nextTick', 'setImmediate', 'clearImmediate', 'queueMicrotask', 'performance'] as const
    jest.useFakeTimers({ doNotFake: [...doNotFake, 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
    return async (millis: number) => {
      jest.setSystemTime(Date.now() + millis)
      return (await Promise.all(urls.map((url) => statusesOf(url, 1)))).flat()
    }
  }

  test('counts each route separately; in tollgate all routes share a limiter', async () => {
    const [there, here] = await Promise.all([
      theirs('[{ ttl: 60_000, limit: 1 }]'),
      ours(new RateLimiter(slidingLog({ limit: 1, window: '60s' }))),
    ])
    const statuses = async (url: string) => [...(await statusesOf(`${url}/a`, 1)), ...(await statusesOf(`${url}/b`, 1))]
    expect(await statuses(there.url)).toEqual([200, 200])
    expect(await statuses(here.url)).toEqual([200, 429])
  })

  test('blocks a client above the limit for a whole ttl; in tollgate units return as the policy says', async () => {
    const both = await onFakeClock(
      theirs('[{ ttl: 3_000, limit: 1 }]'),
      ours(
        new RateLimiter(slidingLog({ limit: 1, window: '3s' }), {
          store: new MemoryStore({ clock: () => Date.now() }),
        }),
      ),
    )
    expect(await both(0)).toEqual([200, 200])
    expect(await both(1_500)).toEqual([429, 429])
    expect(await both(2_000)).toEqual([429, 200])
  })

  test('has blockDuration; tollgate has blockFor', async () => {
    const store = new MemoryStore({ clock: () => Date.now() })
    const both = await onFakeClock(
      theirs('[{ ttl: 500, limit: 1, blockDuration: 3_000 }]'),
      ours(new RateLimiter(slidingLog({ limit: 1, window: '500ms' }), { store, blockFor: '3s' })),
    )
    expect([await both(0), await both(0)]).toEqual([
      [200, 200],
      [429, 429],
    ])
    expect(await both(2_900)).toEqual([429, 429])
    expect(await both(101)).toEqual([200, 200])
  })

  test('checks limits one after the other; tollgate decides them together', async () => {
    const [there, here] = await Promise.all([
      theirs(`[{ name: 'many', ttl: 50_000, limit: 3 }, { name: 'few', ttl: 60_000, limit: 1 }]`),
      ours(
        new RateLimiter({
          many: slidingLog({ limit: 3, window: '50s' }),
          few: slidingLog({ limit: 1, window: '60s' }),
        }),
      ),
    ])
    const last = async (url: string) => {
      await statusesOf(`${url}/a`, 2)
      const { headers } = await fetch(`${url}/a`)
      return [headers.get('x-ratelimit-remaining-many'), headers.get('ratelimit')?.split(', ')[0]?.split(';')[1]]
    }
    expect(await last(there.url)).toEqual(['0', undefined])
    expect(await last(here.url)).toEqual([null, 'r=2'])
  })
})
