/** Pauses of `OutgoingClient` by a `TestClock`: whom they hold back, how long, and what the caller gets in the end. */

import { type ClientOptions, OutgoingClient } from '../../ts/client/index.js'
import {
  concurrency,
  fixedWindow,
  gcra,
  type Policies,
  type Policy,
  type TollgateError,
  tiers,
} from '../../ts/index.js'
import { anything } from '../failure.js'
import { clock, limiterOf, pass } from './clocked.js'

const clientOf = (limiter: unknown, options: Partial<ClientOptions> = {}) => {
  return new OutgoingClient({ clock, key: 'k', limiter: anything(limiter), ...options })
}

const refusedFor = (seconds: number) => {
  return new Response(`after ${seconds}`, { status: 429, headers: { 'Retry-After': `${seconds}` } })
}

const KINDS: readonly (readonly [string, Policy | Policies])[] = [
  ['a rate', gcra({ limit: 50, period: '1s' })],
  ['a window', fixedWindow({ limit: 50, window: '1s' })],
  ['concurrency', concurrency({ limit: 5, ttl: '1m' })],
]

describe('the last answer', () => {
  test.each(KINDS)('a time that equals maxWait is waited for: %s', async (_, policy) => {
    const api = clientOf(limiterOf(policy as Policy), { fetch: async () => answers.shift() as Response })
    const answers = [refusedFor(60), new Response('yes')]
    const call = api.fetch('https://api.example.com/')
    await pass(61_000)
    expect(await (await call).text()).toBe('yes')
  })

  test.each(KINDS)('reaches the caller if another process blocks the key for longer: %s', async (_, policy) => {
    const limiter = limiterOf(policy as Policy)
    const api = clientOf(limiter, { fetch: async () => answers.shift() as Response })
    const answers = [refusedFor(30), new Response('yes')]
    const codes: unknown[] = []
    api.on('giveUp', ({ error, attempts }) => codes.push([(error as TollgateError).code, attempts]))
    const call = api.fetch('https://api.example.com/')
    await pass(10)
    await limiter.block('k', '10m')
    await pass(10_000)
    const answer = await call
    expect([answer.status, await answer.text()]).toEqual([429, 'after 30'])
    expect(codes).toEqual([['WAIT_TOO_LONG', 1]])
    expect(api.status()).toMatchObject({ queued: 0, running: 0 })
  })

  test('an error, too; after an abort the caller gets ABORTED', async () => {
    const limiter = limiterOf(concurrency({ limit: 2, ttl: '1m' }))
    const api = clientOf(limiter, { maxWait: '1s', retries: { limit: 2, minDelay: '1ms' } })
    const failure = Object.assign(new Error('reset'), { code: 'ECONNRESET' })
    const controller = new AbortController()
    const run = async () => {
      await clock.sleep('5ms')
      throw failure
    }
    const [failed, aborted] = [undefined, controller.signal].map((signal) => {
      return api.schedule(run, { isIdempotent: true, ...(signal && { signal }) }).catch((error: unknown) => error)
    })
    await pass(1)
    // It gets the permits between the attempts of the others.
    const held = api.schedule(() => clock.sleep('10s'), { priority: 100, cost: 2 })
    await pass(500)
    controller.abort()
    await pass(10_000)
    expect(await failed).toBe(failure)
    expect(await aborted).toMatchObject({ code: 'ABORTED', attempts: 1 })
    await held
  })

  test('the body of an answer after which a call was sent again is cancelled', async () => {
    const cancelled: unknown[] = []
    const body = () => new ReadableStream({ cancel: () => void cancelled.push(clock.now()) })
    const answers = [new Response(body(), { status: 500 }), new Response('yes')]
    const api = clientOf(limiterOf(gcra({ limit: 50, period: '1s' })))
    const call = api.schedule(() => answers.shift() as Response, { isIdempotent: true })
    await pass(1_000)
    expect(await (await call).text()).toBe('yes')
    expect(cancelled).toHaveLength(1)
  })
})

describe('permits do not make a pause longer', () => {
  const POLICIES: readonly (readonly [string, Policies])[] = [
    ['alone', { most: concurrency({ limit: 1, ttl: '1m' }) }],
    ['with a rate', { rate: gcra({ limit: 100, period: '1s' }), most: concurrency({ limit: 1, ttl: '1m' }) }],
  ]

  test.each(POLICIES)('a block that ends while other calls hold all permits: %s', async (_, policies) => {
    const limiter = limiterOf(policies)
    await limiter.block('k', '30s')
    const api = clientOf(limiter, { maxWait: '55s' })
    const call = api.schedule(() => 'ran')
    await pass(500)
    await limiter.unblock('k')
    const permit = await permitsOf(limiter).acquire('k')
    await pass(6_000)
    expect(api.status().queued).toBe(1)
    await permit.release()
    await pass(100)
    expect(await call).toBe('ran')
  })

  test.each(POLICIES)('a key that is blocked while calls hold all permits: %s', async (_, policies) => {
    const limiter = limiterOf(policies)
    const permit = await permitsOf(limiter).acquire('k')
    await limiter.block('k', '1s')
    const api = clientOf(limiter, { maxWait: '20s' })
    const call = api.schedule(() => 'ran')
    await pass(3_000)
    expect(api.status().queued).toBe(1)
    await permit.release()
    await pass(100)
    expect(await call).toBe('ran')
  })

  test.each(POLICIES)('a call whose answer names a reset, and holds its permit for longer: %s', async (_, policies) => {
    const headers = { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '1' }
    let end = () => {}
    const body = new ReadableStream({
      start: (controller) => {
        end = () => controller.close()
      },
    })
    const answers = [new Response(body, { headers }), new Response('second')]
    const fetch = async () => answers.shift() as Response
    const api = clientOf(limiterOf(policies), { maxWait: '20s', pauseWhenEmpty: true, fetch })
    const first = await api.fetch('https://api.example.com/')
    const second = api.fetch('https://api.example.com/')
    await pass(3_000)
    end()
    expect(await first.text()).toBe('')
    await pass(100)
    expect(await (await second).text()).toBe('second')
  })
})

describe('a pause that a refused turn causes', () => {
  const WINDOWS: readonly (readonly [string, Policy, Partial<ClientOptions>])[] = [
    ['a window', fixedWindow({ limit: 100, window: '8s' }), {}],
    ['reservations', gcra({ limit: 100, period: '8s' }), { usageOf: () => 1 }],
  ]

  test.each(WINDOWS)('holds back no more urgent call that fits: %s', async (_, policy, options) => {
    const limiter = limiterOf(policy)
    await limiter.take('k', 60)
    const api = clientOf(limiter, { maxWait: '20s', ...options })
    const started: string[] = []
    const big = api.schedule(() => started.push('big'), { cost: 50, priority: -10 })
    await pass(50)
    const small = api.schedule(() => started.push('small'), { priority: 10, maxWait: '1s' })
    await pass(10)
    expect(started).toEqual(['small'])
    // Behind the big call it has to wait, so the decision on the big call refuses it.
    const later = api.schedule(() => {}, { priority: -20, maxWait: '100ms' })
    await expect(later).rejects.toMatchObject({ code: 'WAIT_TOO_LONG', decision: { status: 'refused' } })
    await pass(8_000)
    await Promise.all([big, small])
    expect(started).toEqual(['small', 'big'])
  })

  test('holds back no call of another tier; its error has the decision on its own tier', async () => {
    const policy = tiers({
      free: fixedWindow({ limit: 1, window: '8s' }),
      pro: fixedWindow({ limit: 2, window: '8s' }),
    })
    const limiter = limiterOf(policy as unknown as Policy)
    const api = clientOf(limiter, { maxWait: '20s' }) as OutgoingClient<string, string, 'free' | 'pro'>
    await api.schedule(() => {}, { tier: 'free' })
    const free = api.schedule(() => 'free', { tier: 'free' })
    await pass(50)
    const pro = { tier: 'pro', priority: 5, maxWait: '1s' } as const
    expect(await api.schedule(() => 'pro', pro)).toBe('pro')
    await expect(api.schedule(() => {}, pro)).rejects.toMatchObject({ code: 'WAIT_TOO_LONG', decision: { limit: 2 } })
    await pass(8_000)
    expect(await free).toBe('free')
  })

  test('ends when its call is aborted', async () => {
    const limiter = limiterOf(fixedWindow({ limit: 100, window: '8s' }))
    await limiter.take('k', 60)
    const api = clientOf(limiter, { maxWait: '20s' })
    const controller = new AbortController()
    const big = api.schedule(() => {}, { cost: 50, signal: controller.signal }).catch(() => {})
    const small = api.schedule(() => 'small')
    await pass(50)
    controller.abort()
    await pass(10)
    expect(await small).toBe('small')
    await big
  })
})

test('resume finds a key whose parts come in another order', async () => {
  const limiter = limiterOf({
    user: gcra({ limit: 1_000, period: '1s', per: 'user' }),
    team: fixedWindow({ limit: 1_000, window: '1s', per: 'team' }),
  })
  const api = new OutgoingClient({ clock, limiter, maxWait: '10m' })
  const answers: unknown[] = [refusedFor(60), 'yes']
  const call = api.schedule(() => answers.shift(), { key: { user: 'u', team: 't' } })
  await pass(200)
  await limiter.unblock({ team: 't', user: 'u' })
  api.resume({ team: 't', user: 'u' })
  await pass(10)
  expect(await call).toBe('yes')
})

type Acquiring = { acquire(key: string): Promise<{ allowed: boolean; release(): Promise<boolean> }> }

/** The types of a limiter whose policies a test draws from a list do not tell that it has permits. */
const permitsOf = (limiter: unknown) => limiter as Acquiring
