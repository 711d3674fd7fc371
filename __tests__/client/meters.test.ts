/** `OutgoingClient` by a `TestClock` with a limiter whose policies have meters. */
import { OutgoingClient } from '../../ts/client/index.js'
import { concurrency, fixedWindow, gcra, RateLimiter, tiers } from '../../ts/index.js'
import { anything, rejectionOf } from '../failure.js'
import { clock, limiterOf, pass } from './clocked.js'

const rates = () =>
  limiterOf({
    requests: gcra({ limit: 10, period: '1s', burst: 10 }),
    tokens: gcra({ limit: 1_000, period: '1s', burst: 1_000, meter: 'tokens' }),
  })

test('calls take their units of each meter, and start when all fit', async () => {
  const limiter = rates()
  const api = new OutgoingClient({ clock, key: 'k', limiter })
  const began = clock.now()
  const started: [tokens: number, at: number][] = []
  const call = (tokens: number) => {
    return api.schedule(() => void started.push([tokens, clock.now() - began]), { cost: { tokens } })
  }
  const calls = [call(1_000), call(500), call(0), call(250)]
  await pass(5_000)
  await Promise.all(calls)
  // A call without tokens keeps its place behind those that wait for some.
  expect(started).toEqual([
    [1_000, 0],
    [500, 500],
    [0, 500],
    [250, 750],
  ])
  expect((await limiter.peek('k', { cost: { tokens: 0 } })).policies.requests.remaining).toBe(10)
  await api.close()
})

test('equal costs share their turns, whatever meters they leave out', async () => {
  const limiter = limiterOf({
    requests: fixedWindow({ limit: 2, window: '1s' }),
    cents: fixedWindow({ limit: 100, window: '1s', meter: 'cents', defaultCost: 1 }),
  })
  const api = new OutgoingClient({ clock, key: 'k', limiter })
  const order: string[] = []
  const call = (name: string, priority: number, cost?: { readonly cents?: number; readonly calls?: number }) => {
    return api.schedule(() => void order.push(name), { priority, ...(cost && { cost }) })
  }
  const calls = [
    call('a', 0),
    call('b', 0, { cents: 1 }),
    call('c', 0, { calls: 1 }),
    call('d', 1, { cents: 1, calls: 1 }),
  ]
  await pass(3_000)
  await Promise.all(calls)
  // The most urgent call gets the turn that was requested for the first one.
  expect(order).toEqual(['d', 'a', 'b', 'c'])
  await api.close()
})

test('a permit is held, and the other meters are charged', async () => {
  const limiter = limiterOf({
    atOnce: concurrency({ limit: 1, ttl: '1m' }),
    tokens: fixedWindow({ limit: 1_000, window: '1h', meter: 'tokens' }),
  })
  const api = new OutgoingClient({ clock, key: 'k', limiter })
  const running = api.schedule(() => clock.sleep('1s'), { cost: { tokens: 400 } })
  const next = api.schedule(({ decision }) => decision.policies.tokens.remaining, { cost: { tokens: 500 } })
  await pass(999)
  expect(api.status()).toMatchObject({ queued: 1, running: 1 })
  await pass(1)
  await running
  expect(await next).toBe(100)
  const error = await rejectionOf(api.schedule(() => {}, { cost: { tokens: 5, calls: 0 } }))
  expect(error).toMatchObject({ code: 'INVALID_COST', message: expect.stringContaining('cost.calls must be a whole') })
  await api.close()
})

test('an impossible cost names the policy', async () => {
  const api = new OutgoingClient({ clock, key: 'k', limiter: rates() })
  const error = await rejectionOf(api.schedule(() => {}, { cost: { tokens: 1_001 } }))
  expect([error.code, error.message]).toEqual([
    'WAIT_TOO_LONG',
    'the cost under tokens never fits: lower the cost or raise the limit',
  ])
  expect(api.status()).toEqual({ queued: 0, running: 0, isClosed: false })
})

test('a refused call pauses the key, and is sent again with its cost', async () => {
  const limiter = rates()
  const api = new OutgoingClient({ clock, key: 'k', limiter, retries: 1 })
  const refused = new Response(null, { status: 429, headers: { 'retry-after': '2' } })
  const answered = api.schedule(async ({ attempt }) => (attempt === 1 ? refused : new Response('done')), {
    cost: { tokens: 300 },
  })
  await pass(1_999)
  expect((await limiter.peek('k', { cost: { tokens: 0 } })).status).toBe('blocked')
  await pass(10)
  expect(await (await answered).text()).toBe('done')
  expect((await limiter.peek('k', { cost: { tokens: 0 } })).policies.tokens.used).toBeGreaterThan(200)
  await api.close()
})

test('tiers have default costs of their own', async () => {
  const budget = (limit: number, defaultCost: number) => {
    return fixedWindow({ limit, window: '1h', meter: 'tokens', defaultCost })
  }
  const limiter = new RateLimiter(tiers({ free: budget(100, 10), pro: budget(1_000, 25) }), {})
  const api = new OutgoingClient({ key: 'k', limiter })
  const used = (tier: 'free' | 'pro') => api.schedule(({ decision }) => decision.used, { tier })
  expect([await used('pro'), await used('free')]).toEqual([25, 35])
  await api.close()
  await limiter.close()
})

test('map, wrap and fetch take a cost by meter', async () => {
  const limiter = rates()
  const sent: string[] = []
  const fetch = async (url: unknown) => {
    sent.push(String(url))
    return new Response()
  }
  const api = new OutgoingClient({ clock, key: 'k', limiter, fetch: anything(fetch) })
  await api.map(
    [1, 2],
    (tokens) => tokens,
    (tokens) => ({ cost: { tokens } }),
  )
  await api.wrap(
    (text: string) => text,
    (text) => ({ cost: { tokens: text.length } }),
  )('seven words')
  await api.fetch('https://api.example.com/', undefined, { cost: { tokens: 100 } })
  expect(sent).toEqual(['https://api.example.com/'])
  expect((await limiter.peek('k', { cost: { tokens: 0 } })).policies).toMatchObject({
    requests: { used: 4 },
    tokens: { used: 1 + 2 + 11 + 100 },
  })
  await api.close()
})

test('many different costs stay cheap: the calls start in order', async () => {
  const limiter = limiterOf({ tokens: gcra({ limit: 1_000_000, period: '1s', meter: 'tokens' }) })
  const api = new OutgoingClient({ clock, key: 'k', limiter, maxQueued: 3_000 })
  const order: number[] = []
  const calls = Array.from({ length: 2_000 }, (_, index) => {
    return api.schedule(() => void order.push(index), { cost: { tokens: index + 1 } })
  })
  await pass(5_000)
  await Promise.all(calls)
  expect(order).toEqual(Array.from({ length: 2_000 }, (_, index) => index))
  await api.close()
})

test.each<readonly [unknown, string]>([
  [undefined, 'cost must have the units of each meter, tokens is missing; write cost: { tokens: 5 }'],
  [5, 'cost must be an object by meter, because a policy has a meter, got 5: write cost: { tokens: 5 }'],
  [new Map([['tokens', 5]]), 'cost must be a plain object by meter, because a policy has a meter, got a Map'],
  [{ token: 5 }, 'cost: no policy has the meter "token"; did you mean "tokens"?'],
  [{ tokens: -1 }, 'cost.tokens must be a whole number from 0'],
])('a wrong cost: %j', async (cost, message) => {
  const api = new OutgoingClient({ clock, key: 'k', limiter: rates() })
  const error = await rejectionOf(api.schedule(() => {}, anything({ cost })))
  expect([error.code, error.message]).toEqual(['INVALID_COST', expect.stringContaining(message)])
  const plain = new OutgoingClient({ clock, key: 'k', limiter: limiterOf(gcra({ limit: 1, period: '1s' })) })
  const other = await rejectionOf(plain.schedule(() => {}, anything({ cost: { tokens: 5 } })))
  expect(other.message).toContain('no policy has a meter')
})

test('the types follow the meters', async () => {
  const api = new OutgoingClient({ clock, key: 'k', limiter: rates() })
  // @ts-expect-error: the cost has to name the tokens
  const missing = api.schedule(() => {})
  // @ts-expect-error: a cost by meter
  const plain = api.schedule(() => {}, { cost: 5 })
  // @ts-expect-error: no such meter
  const unknown = api.schedule(() => {}, { cost: { tokens: 5, token: 5 } })
  // @ts-expect-error: the cost has to name the tokens
  const ofFetch = api.fetch('https://api.example.com/')
  for (const call of [missing, plain, unknown, ofFetch]) {
    expect((await rejectionOf(call)).code).toBe('INVALID_COST')
  }
  const optional = new OutgoingClient({
    key: 'k',
    limiter: limiterOf(fixedWindow({ limit: 5, window: '1s', meter: 'cents', defaultCost: 1 })),
    clock,
  })
  expect(await optional.schedule(() => 1)).toBe(1)
  const cost: { readonly cents?: number } = { cents: 2 }
  expect(await optional.schedule(() => 2, { cost })).toBe(2)
})
