/** Calls while Redis is away, dies, freezes, loses its scripts or holds foreign values. */

import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
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
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { until } from '../../servers/until.js'
import { loopBlocker } from '../blocked.js'
import { LATE_MS, type Outcome, outcome, PATIENT_MS, recovery } from '../help.js'

/** The deadline of calls that must fail, in milliseconds. */
const TIMEOUT_MS = 300
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
  await using store = new RedisStore({ url: server.url, commandTimeout: TIMEOUT_MS, ...options })
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

/** The codes of calls without a server. */
const AWAY = /^STORE_(UNAVAILABLE|TIMEOUT)$/

/**
 * Expects that calls failed because the server is away, and were not sent. On a busy machine, the deadline of some may
 * pass before the engine tells this; the count in Redis shows that they were not sent, either.
 */
function expectAway(outcomes: readonly Outcome[]): void {
  expect(kinds(outcomes)).toContain('STORE_UNAVAILABLE false')
  expect(
    kinds(outcomes).filter((kind) => !['STORE_UNAVAILABLE false', 'STORE_TIMEOUT unknown'].includes(kind)),
  ).toEqual([])
}

function slowest(outcomes: readonly { readonly ms: number }[]): number {
  return outcomes.reduce((most, { ms }) => Math.max(most, ms), 0)
}

/** The taken units of a key, by a store whose deadline no busy machine misses. */
async function used(key: string): Promise<number> {
  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const { limit, remaining } = await new RateLimiter(ENDLESS, { store, prefix: 'faults' }).peek(key, 0)
  return limit - remaining
}

/** The number of calls of a command, or of errors, that a server has counted. */
async function counted(field: string): Promise<number> {
  return Number(/^(?:calls|count)=(\d+)/.exec((await server.info(field)) ?? '')?.[1] ?? 0)
}

test('without a server calls fail by their deadline and charge nothing; after it starts they work', async () => {
  await withLimiter(async (limiter) => {
    const outcomes = await calls(limiter, Array(64).fill('key'))
    // The same holds for calls that arrive while those wait, and after the store is known to be away.
    outcomes.push(...(await calls(limiter, ['key', 'key', 'other'])))
    expectAway(outcomes)
    expect(slowest(outcomes)).toBeLessThan(TIMEOUT_MS + LATE_MS)
    await expect(limiter.ready()).rejects.toMatchObject({ code: expect.stringMatching(AWAY) })
    await server.begin()
    await recovery(limiter, 'after')
    expect(await used('key')).toBe(0)
  })
})

test('a call succeeds if the server starts before its deadline', async () => {
  await withLimiter(
    async (limiter) => {
      const call = limiter.take('key')
      await server.begin()
      expect(await call).toMatchObject({ allowed: true, remaining: ENDLESS.limit - 1 })
    },
    ENDLESS,
    { commandTimeout: PATIENT_MS },
  )
})

test('a server killed under load: every call settles by its deadline, and calls work again', async () => {
  await server.begin()
  await withLimiter(async (limiter) => {
    const failures: Outcome[] = []
    let [admitted, isOver] = [0, false]
    const caller = async () => {
      while (!isOver) {
        const result = await outcome(limiter.take('key'))
        if (result.error === undefined) {
          admitted++
        } else {
          failures.push(result)
          // While the store is known to be down calls fail immediately, hundreds of thousands of them.
          await sleep(1)
        }
      }
    }
    const callers = Promise.all(Array.from({ length: 64 }, caller))
    await until('calls are admitted', async () => admitted > 1_000)
    await server.kill()
    // Calls in flight at the kill, and calls without a server.
    await until('calls fail', async () => failures.length > 64 && kinds(failures).includes('STORE_UNAVAILABLE false'))
    await server.begin()
    const before = admitted
    await until('calls are admitted again', async () => admitted > before + 1_000)
    isOver = true
    await callers
    const codes = failures.map(({ error }) => error?.code ?? '')
    expect(codes.filter((code) => !['STORE_UNAVAILABLE', 'STORE_TIMEOUT'].includes(code))).toEqual([])
    expect(slowest(failures)).toBeLessThan(TIMEOUT_MS + LATE_MS)
  })
})

// promise: charged-once
test('a frozen server: calls time out by their deadline, and none is charged twice', async () => {
  await server.begin()
  await withLimiter(async (limiter, store) => {
    await recovery(limiter, 'ready')
    server.freeze()
    const lost: Outcome[] = []
    await until('the store is down', async () => {
      lost.push(...(await calls(limiter, Array(64).fill('key'))))
      return store.status().state === 'down'
    })
    expect(store.status()).toMatchObject({
      state: 'down',
      reason: expect.stringMatching(/Redis does not answer$/),
      pending: 0,
    })
    // From then on no call is sent, so none has an unknown outcome.
    const refused = await calls(limiter, Array(64).fill('key'))
    expectAway(refused)
    server.thaw()
    expect(kinds(lost)).toContain('STORE_TIMEOUT unknown')
    expect(kinds(lost).filter((kind) => kind !== 'STORE_TIMEOUT unknown')).toEqual(
      kinds(lost).filter((kind) => kind === 'STORE_UNAVAILABLE false'),
    )
    expect(slowest([...lost, ...refused])).toBeLessThan(TIMEOUT_MS + LATE_MS)
    await recovery(limiter, 'after')
    // Redis has run each received command once, and unsent ones have not run.
    const unknown = [...lost, ...refused].filter(({ error }) => error?.charged === 'unknown')
    expect(await used('key')).toBeLessThanOrEqual(unknown.length)
  })
})

// promise: settles-by-deadline
test('a program that blocks the event loop beyond the deadline fails no call that Redis has answered', async () => {
  await server.begin()
  await withLimiter(async (limiter) => {
    await until('the store is ready', () => limiter.ready().then(() => true))
    const block = await loopBlocker(server, 64)
    const waiting = calls(
      limiter,
      Array.from({ length: 64 }, (_, index) => `key-${index}`),
    )
    // Lets the calls be sent.
    await turn()
    await block(2 * TIMEOUT_MS)
    expect(kinds(await waiting)).toEqual(['undefined undefined'])
  })
})

test('calls are sent while earlier ones are unanswered', async () => {
  await server.begin()
  await using proxy = await TcpProxy.start(server)
  await withLimiter(
    async (limiter) => {
      await limiter.take('ready')
      proxy.hold('down')
      const sent: Promise<Outcome>[] = []
      for (const key of ['a', 'b', 'c', 'd', 'e']) {
        sent.push(outcome(limiter.take(key)))
        await turn()
      }
      await until('all calls have run', async () => (await server.command<string[]>('KEYS', '*{*')).length === 6)
      proxy.cut()
      // Unsent calls would be known not to have run.
      expect(kinds(await Promise.all(sent))).toEqual(['STORE_UNAVAILABLE unknown'])
    },
    ENDLESS,
    { url: proxy.url, commandTimeout: PATIENT_MS },
  )
})

test('with scripts flushed continuously no call fails, is lost or counts twice', async () => {
  await server.begin()
  await withLimiter(
    async (limiter) => {
      let [admitted, flushes, isOver] = [0, 0, false]
      const loop = async () => {
        while (!isOver) {
          const { allowed } = await limiter.take('key')
          admitted += allowed ? 1 : 0
        }
      }
      const loops = Promise.all(Array.from({ length: 64 }, loop))
      await until('the script was unknown ten times', async () => {
        expect(await server.command('SCRIPT', 'FLUSH')).toBe('OK')
        flushes++
        return flushes > 10 && (await counted('errorstat_NOSCRIPT')) > 10
      })
      isOver = true
      await loops
      expect(await used('key')).toBe(admitted)
    },
    ENDLESS,
    { commandTimeout: PATIENT_MS },
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
      await withLimiter(
        async (limiter) => {
          // The key's name is internal to the store: find the key that it made.
          await limiter.take('foreign')
          const [name = ''] = await server.command<string[]>('KEYS', '*foreign*')
          await server.command('DEL', name)
          await server.command(write as string, name, value as string)
          const others = Array.from({ length: 43 }, (_, index) => `other-${index}`)
          const outcomes = await calls(limiter, ['foreign', ...Array(20).fill('shared'), ...others])
          expect(kinds(outcomes.splice(0, 1))).toEqual(['STORE_ERROR false'])
          expect(kinds(outcomes)).toEqual(['undefined undefined'])
          const allowed = outcomes.map(({ decision }) => decision?.allowed)
          expect(allowed).toEqual([...Array(12).fill(true), ...Array(8).fill(false), ...others.map(() => true)])
          expect(await server.command(read as string, name, ...range)).toEqual(content)
          expect(await server.command('TTL', name)).toBe(-1)
        },
        policy,
        { commandTimeout: PATIENT_MS },
      )
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
        expect(ms).toBeLessThan(TIMEOUT_MS + LATE_MS)
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
      expect(slowest(more)).toBeLessThan(LATE_MS)
      await server.begin()
      expect(kinds(await waiting)).toEqual(['undefined undefined'])
      expect(kinds(await calls(limiter, Array(10).fill('key')))).toEqual(['undefined undefined'])
      expect(await used('key')).toBe(20)
    },
    ENDLESS,
    { maxPending: 10, commandTimeout: PATIENT_MS },
  )
})

test('a replica that is promoted within the deadline answers', async () => {
  await server.begin()
  await withLimiter(
    async (limiter) => {
      await limiter.ready()
      await server.command('REPLICAOF', '127.0.0.1', '1')
      const call = limiter.take('key')
      await until('the call was refused', async () => (await counted('errorstat_READONLY')) > 0)
      await server.command('REPLICAOF', 'NO', 'ONE')
      expect(await call).toMatchObject({ allowed: true })
      expect(await used('key')).toBe(1)
    },
    ENDLESS,
    { commandTimeout: PATIENT_MS },
  )
})

test('a server that restarts or drops idle connections fails no call', async () => {
  await server.begin()
  await withLimiter(
    async (limiter) => {
      /** The newest client over TCP: the store. Commands of this test use the unix socket. */
      const newest = async () => {
        const list = await server.command<string>('CLIENT', 'LIST')
        const [, id] = [...list.matchAll(/^id=(\d+) addr=127[.]/gm)].at(-1) ?? []
        return id
      }
      await limiter.ready()
      await server.kill()
      await server.begin()
      const reconnected = await until('the store has connected', newest)
      expect(await limiter.take('key')).toMatchObject({ allowed: true })
      await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      await until('the store has connected again', async () => ![undefined, reconnected].includes(await newest()))
      expect(await limiter.take('key')).toMatchObject({ allowed: true })
      expect(await used('key')).toBe(2)
    },
    ENDLESS,
    { commandTimeout: PATIENT_MS },
  )
})
