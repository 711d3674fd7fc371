/** Counts, refusals, headers and bodies in each adapter. */
import { Agent } from 'node:http'
import { fixedWindow, gcra, MemoryStore, RateLimiter, TollgateError, tiers } from '../../../ts/index.js'
import { TestClock } from '../../../ts/testing/index.js'
import { FakeClock } from '../../clock.js'
import { until } from '../../servers/until.js'
import type { Framework } from '../frameworks.js'
import type { Answer } from '../requests.js'
import { warningsOf } from '../warnings.js'
import { contract, endsOf, limiterOf, ONLY_HTTP_1, run } from './contract.js'

const BOB = { 'x-user': 'bob' }

/** What no answer may contain. */
const SECRETS = /s3cret|10\.1\.2\.3|6379|ECONN|redis/i

/** A limiter whose store cannot be reached. */
function unavailable() {
  const { policies } = limiterOf()
  const take = async () => {
    throw new TollgateError('STORE_UNAVAILABLE', 'Redis is not available: connect ECONNREFUSED 10.1.2.3:6379')
  }
  return { policies, take, refund: async () => 0 }
}

/** An answer of each kind: admitted, refused, without a valid key, and without a decision. */
async function answersOf(adapter: Framework, setup: { readonly headers?: Record<string, string> } = {}) {
  const key = (...args: unknown[]) => (adapter.header(args, 'x-user') === undefined ? 's3cret' : '')
  const limited = await run(adapter, { limiter: limiterOf(1), key }, setup)
  const failing = await run(adapter, { limiter: unavailable(), key }, setup)
  const answers: Answer[] = []
  await warningsOf(async () => {
    for (const { client, headers } of [
      { client: limited.client },
      { client: limited.client },
      { client: limited.client, headers: BOB },
      { client: failing.client },
    ]) {
      answers.push(await client.get({ path: '/ok', ...(headers && { headers }) }))
    }
  })
  expect(answers.map(({ status }) => status)).toEqual([200, 429, 400, 503])
  return answers
}

const PROTOCOL_HEADERS = {
  tRPC: 'its responseMeta sets the headers',
  'GraphQL Yoga': 'only refusals have headers',
  'Apollo Server': 'only refusals have headers',
}

const METHODS = {
  tRPC: 'the method belongs to the protocol',
  'GraphQL Yoga': 'the method belongs to the protocol',
  'Apollo Server': 'the method belongs to the protocol',
}

contract({
  'each request is counted exactly once; a refused one never reaches the route': {
    test: async (adapter) => {
      const limiter = limiterOf(2)
      const take = jest.fn(limiter.take.bind(limiter))
      const counting = { policies: limiter.policies, take, refund: limiter.refund.bind(limiter) }
      const { client, routed } = await run(adapter, { limiter: counting })
      const statuses: number[] = []
      const warnings = await warningsOf(async () => {
        for (const headers of [{}, {}, {}, {}, BOB]) {
          statuses.push((await client.get({ path: '/ok', headers })).status)
        }
      })
      expect([statuses, routed.length, take.mock.calls.length]).toEqual([[200, 200, 429, 429, 200], 3, 5])
      expect([(await limiter.peek('ann')).used, (await limiter.peek('bob')).used, warnings]).toEqual([2, 1, []])
    },
  },

  'headers of earlier middlewares stay in every answer': {
    except: {
      fetch: 'no middleware runs before it',
      tRPC: 'no middleware runs before it',
      'GraphQL Yoga': 'no middleware runs before it',
      'Apollo Server': 'no middleware runs before it',
    },
    test: async (adapter) => {
      const headers = { 'access-control-allow-origin': 'https://a.example', 'x-request-id': '7', vary: 'Origin' }
      for (const answer of await answersOf(adapter, { headers })) {
        expect(answer.headers).toMatchObject(headers)
      }
    },
  },

  'the limit and the retry time are headers': {
    except: PROTOCOL_HEADERS,
    test: async (adapter) => {
      const [admitted, refused, invalid, failed] = await answersOf(adapter)
      const policy = '"default";q=1;w=3600'
      expect(admitted?.headers).toMatchObject({ 'ratelimit-policy': policy, ratelimit: '"default";r=0;t=3600' })
      expect(refused?.headers).toMatchObject({ 'ratelimit-policy': policy, 'retry-after': '3600' })
      for (const answer of [invalid, failed]) {
        expect(Object.keys(answer?.headers ?? {}).filter((name) => /ratelimit|retry/.test(name))).toEqual([])
      }
    },
  },

  'answers contain no key, no address and no error of the store': {
    test: async (adapter) => {
      for (const { body, headers } of await answersOf(adapter)) {
        expect(body).not.toMatch(SECRETS)
        expect(JSON.stringify(headers)).not.toMatch(SECRETS)
      }
    },
  },

  'skipped requests are not counted': {
    test: async (adapter) => {
      const limiter = limiterOf()
      const skip = async (...args: unknown[]) => adapter.header(args, 'x-user') === 'bob'
      const { client } = await run(adapter, { limiter, skip })
      expect((await client.get({ path: '/ok', headers: BOB })).body).toContain('undefined undefined')
      expect((await client.get({ path: '/ok' })).body).toContain('allowed 9')
      expect((await limiter.peek('bob')).used).toBe(0)
    },
  },

  'methods without a body are counted and refused as others': {
    except: METHODS,
    test: async (adapter) => {
      const limiter = limiterOf(2)
      const { client, routed } = await run(adapter, { limiter })
      for (const method of ['HEAD', 'OPTIONS']) {
        expect((await client.get({ method, path: '/ok' })).status).toBe(200)
      }
      for (const method of ['HEAD', 'OPTIONS', 'DELETE']) {
        const { status, headers } = await client.get({ method, path: '/ok' })
        expect([status, headers['retry-after']]).toEqual([429, '3600'])
      }
      expect([routed.length, (await limiter.peek('ann')).used]).toEqual([2, 2])
    },
  },

  'requests on one connection are each counted': {
    except: ONLY_HTTP_1,
    test: async (adapter) => {
      const limiter = limiterOf(2)
      const { client, routed } = await run(adapter, { limiter })
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const connections = new Set<object>()
      agent.on('free', (socket) => connections.add(socket))
      const statuses: number[] = []
      for (let request = 0; request < 3; request++) {
        statuses.push((await client.get({ path: '/ok', agent })).status)
      }
      expect([statuses, connections.size]).toEqual([[200, 200, 429], 1])
      agent.destroy()
      const bob = { path: '/ok', headers: BOB }
      expect(await client.pipeline([bob, bob, bob, { path: '/ok' }, bob])).toEqual([200, 200, 429, 429, 429])
      expect([routed.length, (await limiter.peek('bob')).used]).toEqual([4, 2])
    },
  },

  'a request for another protocol is counted and refused as others, if the app does not answer it': {
    except: ONLY_HTTP_1,
    test: async (adapter) => {
      const limiter = limiterOf(1)
      const { client, routed } = await run(adapter, { limiter })
      const upgrade = { path: '/ok', headers: { connection: 'upgrade', upgrade: 'websocket' } }
      expect([(await client.get(upgrade)).status, (await client.get(upgrade)).status]).toEqual([200, 429])
      expect([routed.length, (await limiter.peek('ann')).used]).toEqual([1, 1])
    },
  },

  'delay: a request over the limit waits for its turn, and is refused if that is too far away': {
    test: async (adapter) => {
      const clock = new TestClock()
      const limiter = new RateLimiter(gcra({ limit: 1, period: '300ms', burst: 1 }), {
        store: new MemoryStore({ clock }),
      })
      const { client, routed } = await run(adapter, { limiter, delay: '400ms' })
      const ask = { path: '/ok' }
      expect((await client.get(ask)).status).toBe(200)
      const sent = [client.get(ask), client.get(ask)]
      expect((await Promise.race(sent)).status).toBe(429)
      await until('the other one waits', async () => clock.timerCount === 1)
      await clock.advance(299)
      expect([clock.timerCount, routed.length]).toEqual([1, 1])
      await clock.advance(1)
      expect((await Promise.all(sent)).map(({ status }) => status).sort()).toEqual([200, 429])
      expect(routed.length).toBe(2)
    },
  },

  // promise: turn-given-up
  'delay: a client that disconnects gives up its turn, and does not reach the route': {
    test: async (adapter) => {
      const store = new MemoryStore({ clock: new TestClock() })
      const limiter = new RateLimiter(gcra({ limit: 1, period: '10s', burst: 1 }), { store })
      const { client, routed } = await run(adapter, { limiter, delay: '1m' })
      expect((await client.get({ path: '/ok' })).status).toBe(200)
      const resetAfterMs = async () => (await limiter.peek('ann')).resetAfterMs
      const sent = client.send({ path: '/ok' })
      await until('the request waits', async () => (await resetAfterMs()) > 10_000, 30_000)
      sent.reset()
      await until('its slot is cancelled', async () => (await resetAfterMs()) === 10_000, 30_000)
      expect(routed.length).toBe(1)
    },
  },

  'refunds: failed, successful, or what a function chooses; refused requests have nothing to refund': {
    test: async (adapter) => {
      const ends = endsOf(({ status }) => status === 200)
      for (const [refundWhen, refunded] of [
        ['failed', 2],
        ['successful', 1],
        [ends.refundWhen, 1],
      ] as const) {
        const limiter = limiterOf(3)
        const refund = jest.fn(limiter.refund.bind(limiter))
        const { client } = await run(adapter, {
          limiter: { policies: limiter.policies, take: limiter.take.bind(limiter), refund },
          refundWhen,
        })
        await Promise.all(['/ok', '/missing', '/thrown'].map((path) => client.get({ path })))
        await until(
          'the units are back',
          async () => refund.mock.calls.length === refunded && (await limiter.peek('ann')).used === 3 - refunded,
          30_000,
        )
      }
      const sorted = ends.ends.map(({ status, aborted }) => `${status} ${aborted}`).sort()
      // Apollo removes the statuses of errors before it shows them to plugins.
      expect(sorted).toEqual(['200 false', adapter.name === 'Apollo Server' ? '500 false' : '404 false', '500 false'])
    },
  },

  // promise: refunded-once
  'refunds: one that fails causes one warning, and affects no request': {
    test: async (adapter) => {
      const { policies, take } = limiterOf()
      const refund = jest.fn(async () => Promise.reject(new Error('the store is away')))
      const limiter = { policies, take: take.bind(limiterOf()), refund }
      const { client } = await run(adapter, { limiter, refundWhen: 'successful' })
      const warnings = await warningsOf(async () => {
        for (const calls of [1, 2]) {
          expect((await client.get({ path: '/ok' })).status).toBe(200)
          await until('it has been tried', async () => refund.mock.calls.length === calls, 30_000)
        }
        await new Promise((resolve) => setImmediate(resolve))
      })
      expect(warnings).toEqual([
        { code: 'TOLLGATE_REFUND_FAILED', message: expect.stringContaining('the store is away') },
      ])
    },
  },

  'tiers: a request has the numbers of its tier, also after a change of the plan and of the numbers': {
    test: async (adapter) => {
      const plansOf = (free: number, pro: number) =>
        tiers({ free: fixedWindow({ limit: free, window: '1h' }), pro: fixedWindow({ limit: pro, window: '1m' }) })
      const limiter = new RateLimiter(plansOf(1, 3), { store: new MemoryStore({ clock: new FakeClock().read }) })
      const plans = new Map<string, string>()
      const tier = async (...args: unknown[]) => plans.get(adapter.header(args, 'x-user') ?? 'ann') ?? 'free'
      const { client } = await run(adapter, { limiter, tier })
      const ask = async (headers: Record<string, string> = {}) => {
        const answer = await client.get({ path: '/ok', headers })
        const { 'ratelimit-policy': policy } = answer.headers
        return `${answer.status} ${adapter.name in PROTOCOL_HEADERS ? '' : policy}`
      }
      const written = (status: number, policy: string) =>
        `${status} ${adapter.name in PROTOCOL_HEADERS ? '' : `"default";${policy}`}`
      expect(await ask()).toBe(written(200, 'q=1;w=3600'))
      expect(await ask()).toBe(written(429, 'q=1;w=3600'))
      plans.set('ann', 'pro')
      expect(await ask()).toBe(written(200, 'q=3;w=60'))
      limiter.update(plansOf(2, 5))
      expect([await ask(BOB), await ask(BOB), await ask(BOB)]).toEqual([
        written(200, 'q=2;w=3600'),
        written(200, 'q=2;w=3600'),
        written(429, 'q=2;w=3600'),
      ])
      expect(await ask()).toBe(written(200, 'q=5;w=60'))
      plans.set('bob', 'gold')
      expect(Number((await ask(BOB)).slice(0, 3))).toBeGreaterThanOrEqual(500)
    },
  },

  'bans: a banned client is told when the ban ends': {
    test: async (adapter) => {
      const clock = new FakeClock()
      const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1m' }), {
        store: new MemoryStore({ clock: clock.read }),
        ban: { after: 2, period: '10m', for: ['5m', '1h'] },
      })
      const { client } = await run(adapter, { limiter })
      const ask = async () => {
        const { status, headers } = await client.get({ path: '/ok' })
        return status === 200 || adapter.name === 'tRPC' ? status : Number(headers['retry-after'])
      }
      const told = (seconds: number) => (adapter.name === 'tRPC' ? 429 : seconds)
      expect([await ask(), await ask(), await ask()]).toEqual([200, told(60), told(300)])
      clock.advance(299_000)
      expect(await ask()).toBe(told(1))
      clock.advance(1_000)
      // The first refusal after an admitted call tells how long to wait, and is no strike.
      expect([await ask(), await ask(), await ask(), await ask()]).toEqual([200, told(60), told(60), told(3_600)])
    },
  },
})
