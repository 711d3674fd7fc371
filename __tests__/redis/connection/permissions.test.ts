/**
 * A running server that refuses commands: each call gets the reason immediately, uncharged, and is
 * not retried.
 */

import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fixedWindow, gcra, RateLimiter, RedisStore, slidingCounter, slidingLog } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { LATE_MS, outcome, PATIENT_MS } from '../help.js'

const POLICIES = [
  gcra({ limit: 100, period: '1h' }),
  fixedWindow({ limit: 100, window: '1h' }),
  slidingLog({ limit: 100, window: '1h' }),
]

/** The cause of the refusals, and its removal. */
interface Refusal {
  readonly name: string
  readonly why: RegExp
  readonly config?: readonly string[]
  /** Whether this version refuses in this case; by default all do. */
  isKnownTo?(version: string): boolean
  begin(server: RedisServer): Promise<unknown>
  end(server: RedisServer): Promise<unknown>
}

const REFUSALS: readonly Refusal[] = [
  {
    name: 'OOM: the memory is full and nothing may be evicted',
    why: /OOM|maxmemory/,
    begin: (server) => server.command('CONFIG', 'SET', 'maxmemory', '1'),
    end: (server) => server.command('CONFIG', 'SET', 'maxmemory', '0'),
  },
  {
    name: 'NOREPLICAS: fewer replicas follow than must',
    why: /NOREPLICAS/,
    // Redis 6.2 applies it to commands, but lets scripts write.
    isKnownTo: (version) => !version.startsWith('6.'),
    begin: (server) => server.command('CONFIG', 'SET', 'min-replicas-to-write', '1'),
    end: (server) => server.command('CONFIG', 'SET', 'min-replicas-to-write', '0'),
  },
  {
    name: 'MISCONF: the last dump could not be written',
    why: /MISCONF/,
    config: ['save 3600 1', 'dbfilename taken.rdb'],
    async begin(server) {
      // A folder at the path of the dump file.
      await mkdir(join(dirname(server.socketPath), 'taken.rdb'))
      await server.command('BGSAVE')
      await until(
        'the dump has failed',
        async () => (await server.info('rdb_last_bgsave_status')) === 'err' || undefined,
      )
    },
    end: (server) => server.command('CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'no'),
  },
  {
    name: 'NOPERM: the user may not run scripts',
    why: /NOPERM|permission/i,
    begin: (server) => server.command('ACL', 'SETUSER', 'default', '-evalsha', '-eval'),
    end: (server) => server.command('ACL', 'SETUSER', 'default', '+evalsha', '+eval'),
  },
]

test.each(REFUSALS)('$name', async ({ why, config = [], isKnownTo, begin, end }) => {
  await using server = await RedisServer.start({ config })
  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const events: string[] = []
  store.on('down', ({ reason }) => events.push(reason))
  const limiters = POLICIES.map((policy, index) => new RateLimiter(policy, { store, prefix: `p${index}` }))
  const takes = () => Promise.all(limiters.flatMap((limiter) => ['a', 'b'].map((key) => outcome(limiter.take(key)))))
  expect((await takes()).filter(({ error }) => error !== undefined)).toEqual([])
  await begin(server)
  if (isKnownTo?.((await server.info('redis_version')) as string) === false) {
    expect((await takes()).map(({ decision }) => decision?.remaining)).toEqual(Array(6).fill(98))
    return
  }
  for (const { error, ms } of await takes()) {
    expect(error).toMatchObject({ code: 'STORE_ERROR', charged: false })
    expect(error?.message).toMatch(why)
    // Long before the deadline, so it was not tried again.
    expect(ms).toBeLessThan(LATE_MS)
  }
  // The server answers, so it is not down: health checks ask for HELLO. A unit test has all of its answers.
  const checks = async () => Number(/calls=(\d+)/.exec((await server.info('cmdstat_hello')) ?? '')?.[1] ?? 0)
  const before = await checks()
  await until('its health was checked twice', async () => (await checks()) >= before + 2)
  expect(store.status().state).toBe('up')
  expect(events).toEqual([])
  await end(server)
  for (const { decision } of await takes()) {
    expect(decision?.remaining).toBe(98)
  }
})

test.each([
  ['a rate', gcra({ limit: 100, period: '1h' })],
  ['a counter', slidingCounter({ limit: 100, window: '1h' })],
  ['two rates', { hour: gcra({ limit: 100, period: '1h' }), day: gcra({ limit: 200, period: '1d' }) }],
])('%s: a user without read permission gets that reason, not the one for foreign values', async (_, policy) => {
  await using server = await RedisServer.start()
  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(policy, { store, prefix: 'p' })
  const takes = () => Promise.all(['a', 'b', 'a'].map((key) => outcome(limiter.take(key))))
  // Twice: the second time the keys exist, and use a fast path.
  await takes()
  await takes()
  await server.command('ACL', 'SETUSER', 'default', '-mget')
  for (const { error } of await takes()) {
    // The script has begun: it may have decided calls of another limiter.
    expect(error).toMatchObject({ code: 'STORE_ERROR', charged: 'unknown' })
    expect(error?.message).toMatch(/can't run this command|NOPERM|permission/i)
  }
  await server.command('ACL', 'SETUSER', 'default', '+mget')
  expect((await takes()).map(({ decision }) => decision?.remaining)).toEqual([95, 97, 94])
})
