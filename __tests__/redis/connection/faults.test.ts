/** Calls while Redis is away, dies, freezes, loses its scripts or holds foreign values. */

import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import {
  fixedWindow,
  gcra,
  type Policy,
  RateLimiter,
  RedisStore,
  type RedisStoreOptions,
  type SlidingLogsPolicy,
} from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { hammer, type Outcome, outcome, recovery, reportOf } from '../help.js'

const TIMEOUT_MS = 300
/** The tolerance for a busy machine beyond a deadline. `npm run chaos` measures exactly. */
const GRACE_MS = 1_000
const ENDLESS = fixedWindow({ limit: 1_000_000_000, window: '1d' })

let server: RedisServer

beforeEach(async () => {
  server = await RedisServer.reserve()
})

afterEach(() => server.stop())

/** Runs with a limiter on a private store. */
async function withLimiter(
  run: (limiter: RateLimiter, store: RedisStore) => Promise<void>,
  policy: Exclude<Policy, SlidingLogsPolicy> = ENDLESS,
  options: Partial<RedisStoreOptions> = {},
): Promise<void> {
  await using store = new RedisStore({ url: server.url, commandTimeoutMs: TIMEOUT_MS, ...options })
  await run(new RateLimiter(policy, { store, prefix: 'faults' }), store)
}

/** Starts calls in one tick of the event loop. */
function calls(limiter: RateLimiter, keys: readonly string[]): Promise<Outcome[]> {
  return Promise.all(keys.map((key) => outcome(limiter.take(key))))
}

/** Each distinct error code with its `charged`. */
function kinds(outcomes: readonly Pick<Outcome, 'error'>[]): string[] {
  return [...new Set(outcomes.map(({ error }) => `${error?.code} ${error?.charged}`))].sort()
}

function slowest(outcomes: readonly { readonly ms: number }[]): number {
  return outcomes.reduce((most, { ms }) => Math.max(most, ms), 0)
}

/** The taken units of a key. */
async function used(limiter: RateLimiter, key: string): Promise<number> {
  const { limit, remaining } = await limiter.peek(key, 0)
  return limit - remaining
}

test('without a server calls fail by their deadline and charge nothing; after it starts they work', async () => {
  await withLimiter(async (limiter) => {
    const outcomes = await calls(limiter, Array(64).fill('key'))
    // The same holds for calls that arrive while those wait.
    const later = [outcome(limiter.take('key'))]
    await sleep(TIMEOUT_MS / 2)
    later.push(outcome(limiter.take('key')), outcome(limiter.take('other')))
    outcomes.push(...(await Promise.all(later)))
    expect(kinds(outcomes)).toEqual(['STORE_UNAVAILABLE false'])
    expect(slowest(outcomes)).toBeLessThan(TIMEOUT_MS + GRACE_MS)
    await expect(limiter.ready()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE', charged: false })
    await server.begin()
    expect(await recovery(limiter, 'after')).toBeLessThan(1_000)
    expect(await used(limiter, 'key')).toBe(0)
  })
})

test('a call succeeds if the server starts before its deadline', async () => {
  await withLimiter(
    async (limiter) => {
      const call = limiter.take('key')
      await sleep(200)
      await server.begin()
      expect(await call).toMatchObject({ allowed: true, remaining: ENDLESS.limit - 1 })
    },
    ENDLESS,
    { commandTimeoutMs: 5_000 },
  )
})

test('a server killed under load: every call settles by its deadline, and calls work again', async () => {
  await server.begin()
  const work = { url: server.url, policy: ENDLESS, prefix: 'killed', keys: ['key'], inFlight: 64, ms: 2_500 }
  const reported = reportOf(await hammer({ ...work, commandTimeoutMs: TIMEOUT_MS }))
  await sleep(500)
  const killed = Date.now()
  await server.kill()
  // Longer than the deadline, so that calls are made and fail during the outage.
  await sleep(700)
  await server.begin()
  const begun = Date.now()
  const { failures, admitted } = await reported
  const codes = new Set(failures.map(({ code }) => code))
  // Calls in flight at the kill, and calls without a server; no other errors.
  expect(failures.length).toBeGreaterThanOrEqual(64)
  expect([...codes].filter((code) => !['STORE_UNAVAILABLE', 'STORE_TIMEOUT'].includes(code))).toEqual([])
  expect(codes).toContain('STORE_UNAVAILABLE')
  expect(slowest(failures)).toBeLessThan(TIMEOUT_MS + GRACE_MS)
  expect(failures[0]?.at).toBeGreaterThanOrEqual(killed)
  expect(failures.at(-1)?.at).toBeLessThan(begun + 1_000)
  const again = Object.values(admitted)
    .flat()
    .map((at) => at / 1_000)
    .filter((at) => at >= begun)
  expect(again[0]).toBeLessThan(begun + 1_000)
  expect(again.length).toBeGreaterThan(1_000)
})

test('a frozen server: calls time out by their deadline, and none is charged twice', async () => {
  await server.begin()
  await withLimiter(async (limiter, store) => {
    const before = await calls(limiter, Array(64).fill('key'))
    expect(kinds(before)).toEqual(['undefined undefined'])
    server.freeze()
    const frozenAt = performance.now()
    const lost: Outcome[] = []
    while (store.status().state !== 'down' && performance.now() < frozenAt + 2_000) {
      lost.push(...(await calls(limiter, Array(64).fill('key'))))
    }
    expect(store.status()).toMatchObject({ state: 'down', reason: 'Redis does not answer', pending: 0 })
    // From then on no call waits.
    const refused = await calls(limiter, Array(64).fill('key'))
    expect(kinds(refused)).toEqual(['STORE_UNAVAILABLE false'])
    expect(slowest(refused)).toBeLessThan(TIMEOUT_MS)
    server.thaw()
    expect(kinds(lost)).toContain('STORE_TIMEOUT unknown')
    expect(kinds(lost).filter((kind) => kind !== 'STORE_TIMEOUT unknown')).toEqual(
      kinds(lost).filter((kind) => kind === 'STORE_UNAVAILABLE false'),
    )
    expect(slowest(lost)).toBeLessThan(TIMEOUT_MS + GRACE_MS)
    expect(await recovery(limiter, 'after')).toBeLessThan(1_000)
    const after = await calls(limiter, Array(64).fill('key'))
    expect(kinds(after)).toEqual(['undefined undefined'])
    // Redis has run each received command once, and unsent ones have not run.
    const counted = await used(limiter, 'key')
    expect(counted).toBeGreaterThanOrEqual(before.length + after.length)
    expect(counted).toBeLessThanOrEqual(before.length + lost.length + after.length)
  })
})

test('a program that blocks the event loop beyond the deadline fails no call that Redis has answered', async () => {
  await server.begin()
  await withLimiter(async (limiter) => {
    await limiter.ready()
    const waiting = calls(limiter, Array(64).fill('key'))
    // Lets the calls be sent.
    await new Promise(setImmediate)
    const end = performance.now() + 2 * TIMEOUT_MS
    while (performance.now() < end) {}
    expect(kinds(await waiting)).toEqual(['undefined undefined'])
  })
})

test('calls are sent while earlier ones are unanswered: partial flushes do not wait for long', async () => {
  await server.begin()
  const run = async (limiter: RateLimiter) => {
    await limiter.take('ready')
    server.freeze()
    const sent: Promise<Outcome>[] = []
    for (const key of ['a', 'b', 'c', 'd', 'e']) {
      sent.push(outcome(limiter.take(key)))
      await sleep(2)
    }
    await sleep(100)
    await server.kill()
    // Unsent calls would be known not to have run.
    expect(kinds(await Promise.all(sent))).toEqual(['STORE_UNAVAILABLE unknown'])
  }
  await withLimiter(run, ENDLESS, { commandTimeoutMs: 5_000 })
})

test('with scripts flushed continuously no call fails, is lost or counts twice', async () => {
  await server.begin()
  await withLimiter(
    async (limiter) => {
      const end = performance.now() + 1_000
      let [admitted, flushes] = [0, 0]
      const loop = async () => {
        while (performance.now() < end) {
          const { allowed } = await limiter.take('key')
          admitted += allowed ? 1 : 0
        }
      }
      const flush = async () => {
        while (performance.now() < end) {
          expect(await server.command('SCRIPT', 'FLUSH')).toBe('OK')
          flushes++
          await sleep(20)
        }
      }
      await Promise.all([flush(), ...Array.from({ length: 64 }, loop)])
      expect(await used(limiter, 'key')).toBe(admitted)
      expect(flushes).toBeGreaterThan(10)
      const [, unknown] = /^count=(\d+)/.exec((await server.info('errorstat_NOSCRIPT')) ?? '') ?? []
      expect(Number(unknown)).toBeGreaterThan(10)
    },
    ENDLESS,
    { commandTimeoutMs: 5_000 },
  )
})

describe.each([fixedWindow({ limit: 12, window: '1h' }), gcra({ limit: 12, period: '1h' })])(
  'a foreign value in a batch fails alone: $algorithm',
  (policy) => {
    test.each([
      ['a text', ['SET', 'hello'], ['GET'], 'hello'],
      ['a list', ['RPUSH', 'hello'], ['LRANGE', '0', '-1'], ['hello']],
    ])('%s', async (_kind, [write, value], [read, ...range], content) => {
      await server.begin()
      await withLimiter(async (limiter) => {
        // The key's name is internal to the store: find the key that it made.
        await limiter.take('foreign')
        const [name = ''] = await server.command<string[]>('KEYS', '*foreign*')
        await limiter.reset('foreign')
        await server.command(write as string, name, value as string)
        const others = Array.from({ length: 43 }, (_, index) => `other-${index}`)
        const outcomes = await calls(limiter, ['foreign', ...Array(20).fill('shared'), ...others])
        expect(kinds(outcomes.splice(0, 1))).toEqual(['STORE_ERROR false'])
        expect(kinds(outcomes)).toEqual(['undefined undefined'])
        const allowed = outcomes.map(({ decision }) => decision?.allowed)
        expect(allowed).toEqual([...Array(12).fill(true), ...Array(8).fill(false), ...others.map(() => true)])
        expect(await server.command(read as string, name, ...range)).toEqual(content)
        expect(await server.command('TTL', name)).toBe(-1)
      }, policy)
    })
  },
)

test('a wrong password is reported, without the password', async () => {
  await server.begin()
  await server.command('CONFIG', 'SET', 'requirepass', 'right')
  const password = 'hunter2hunter2'
  for (const url of [
    `redis://:${password}@127.0.0.1:${server.port}`,
    `redis://me:${password}@127.0.0.1:${server.port}`,
  ]) {
    await withLimiter(
      async (limiter) => {
        const { error, ms } = await outcome(limiter.take('key'))
        expect(error?.code).toMatch(/^STORE_/)
        expect(ms).toBeLessThan(TIMEOUT_MS + GRACE_MS)
        const ready = await limiter.ready().catch((thrown: unknown) => thrown)
        // Everything that a logger could print, including the cause and hidden properties.
        const texts = [error, ready].map((one) => `${(one as Error).stack} ${inspect(one, { showHidden: true })}`)
        expect(texts.join()).not.toContain(password)
      },
      ENDLESS,
      { url },
    )
  }
})

test('a call above maxPending is OVERLOADED immediately; there is room once the others settle', async () => {
  await withLimiter(
    async (limiter) => {
      const waiting = calls(limiter, Array(10).fill('key'))
      const more = await calls(limiter, Array(5).fill('key'))
      expect(kinds(more)).toEqual(['OVERLOADED false'])
      expect(slowest(more)).toBeLessThan(100)
      await server.begin()
      expect(kinds(await waiting)).toEqual(['undefined undefined'])
      expect(kinds(await calls(limiter, Array(10).fill('key')))).toEqual(['undefined undefined'])
      expect(await used(limiter, 'key')).toBe(20)
    },
    ENDLESS,
    { maxPending: 10, commandTimeoutMs: 5_000 },
  )
})

test('a replica that is promoted within the deadline answers', async () => {
  await server.begin()
  await withLimiter(
    async (limiter) => {
      await limiter.ready()
      await server.command('REPLICAOF', '127.0.0.1', '1')
      const call = limiter.take('key')
      await sleep(100)
      await server.command('REPLICAOF', 'NO', 'ONE')
      expect(await call).toMatchObject({ allowed: true })
      expect(await used(limiter, 'key')).toBe(1)
    },
    ENDLESS,
    { commandTimeoutMs: 5_000 },
  )
})

test('a server that restarts or drops idle connections fails no call', async () => {
  await server.begin()
  await withLimiter(async (limiter) => {
    await limiter.ready()
    await server.kill()
    await server.begin()
    await sleep(1_000)
    expect(await limiter.take('key')).toMatchObject({ allowed: true })
    await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await sleep(1_000)
    expect(await limiter.take('key')).toMatchObject({ allowed: true })
    expect(await used(limiter, 'key')).toBe(2)
  })
})
