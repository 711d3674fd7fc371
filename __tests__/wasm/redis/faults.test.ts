/**
 * Calls through a client that fails, hangs or reports refusals: the same outcomes as with the
 * native store.
 */
import { fixedWindow, RateLimiter, RedisStore, type RunCommand } from '../../../ts/wasm/index.js'
import { rejectionOf } from '../../failure.js'
import { LATE_MS, type Outcome, outcome, PATIENT_MS, recovery } from '../../redis/help.js'
import { RedisServer } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { CLIENT_STORES, ioredis } from './stores.js'

/** The deadline of calls that must fail, in milliseconds. */
const TIMEOUT_MS = 300
const ENDLESS = fixedWindow({ limit: 1_000_000_000, window: '1d' })

/** A limiter whose commands run through this function. */
function limiterBy(run: RunCommand, options = {}) {
  const store = RedisStore.from(run, { commandTimeout: TIMEOUT_MS, ...options })
  return new RateLimiter(ENDLESS, { store, prefix: 'faults' })
}

/** Each distinct error code with its `charged`. */
function kinds(outcomes: readonly Pick<Outcome, 'error'>[]): string[] {
  return [...new Set(outcomes.map(({ error }) => `${error?.code} ${error?.charged}`))].sort()
}

test('a call through a hanging client fails at its deadline, with unknown charges', async () => {
  let sent = 0
  const limiter = limiterBy(() => {
    sent++
    return new Promise(() => {})
  })
  const outcomes = await Promise.all(
    Array.from({ length: 30 }, (_, index) => outcome(limiter.take(`key ${index % 7}`))),
  )
  expect(kinds(outcomes)).toEqual(['STORE_TIMEOUT unknown'])
  expect(Math.min(...outcomes.map(({ ms }) => ms))).toBeGreaterThan(TIMEOUT_MS - 20)
  expect(Math.max(...outcomes.map(({ ms }) => ms))).toBeLessThan(TIMEOUT_MS + LATE_MS)
  expect(sent).toBe(1)
})

test('a takeMany with an unknown outcome of one key has an unknown charge', async () => {
  const limiter = limiterBy(() => new Promise(() => {}))
  await expect(limiter.takeMany(['a', 'b'])).rejects.toMatchObject({ code: 'STORE_TIMEOUT', charged: 'unknown' })
})

describe("a client's error", () => {
  const error = (message: string, more = {}) => Object.assign(new Error(message), more)

  test.each([
    ['a broken connection', error('Connection is closed.'), 'STORE_UNAVAILABLE', 'unknown'],
    ['an abort', error('aborted', { code: 'ECONNRESET' }), 'STORE_UNAVAILABLE', 'unknown'],
    ['an unknown error', error('UNHEARD of'), 'STORE_UNAVAILABLE', 'unknown'],
    ['a rejection without an error', 'gone', 'STORE_UNAVAILABLE', 'unknown'],
    ['nothing', undefined, 'STORE_UNAVAILABLE', 'unknown'],
    ['no server at the port', error('', { code: 'ECONNREFUSED' }), 'STORE_UNAVAILABLE', false],
    [
      'no server at the port, from fetch',
      error('fetch failed', { cause: { code: 'ECONNREFUSED' } }),
      'STORE_UNAVAILABLE',
      false,
    ],
    ['no memory', error("OOM command not allowed when used memory > 'maxmemory'."), 'STORE_ERROR', false],
    ['no rights', error("NOPERM this user has no permissions to run the 'evalsha' command"), 'STORE_ERROR', false],
    ['another node', error('MOVED 3999 127.0.0.1:6381'), 'STORE_ERROR', false],
    ['an error in a pipeline', error('Command failed: NOPERM no permissions'), 'STORE_ERROR', false],
    ["a proxy's error", error('ERR Connection timed out'), 'STORE_ERROR', 'unknown'],
    ['an error of a script that has begun', error('WRONGTYPE Operation against a key'), 'STORE_UNAVAILABLE', 'unknown'],
  ])('%s', async (_, reason, code, charged) => {
    let sent = 0
    const limiter = limiterBy(() => {
      sent++
      return Promise.reject(reason)
    })
    expect(await rejectionOf(limiter.take('a'))).toMatchObject({ code, charged })
    // Commands that may have run, or never can, are not retried.
    expect(sent).toBe(1)
  })

  test('a throw counts like a rejection', async () => {
    const limiter = limiterBy(() => {
      throw new Error('not connected')
    })
    expect(await rejectionOf(limiter.take('a'))).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: 'unknown' })
  })

  test('no error contains a password or a key', async () => {
    const texts = [
      'connect to redis://user:hunter2@host failed for ann@example.com',
      'ERR no such thing, command was: ["evalsha","…","ann@example.com"]',
    ]
    for (const text of texts) {
      const limiter = limiterBy(() => Promise.reject(new Error(text, { cause: { code: 'E' } })))
      expect((await rejectionOf(limiter.take('ann@example.com'))).message).not.toMatch(/hunter2|ann@/)
    }
  })

  test.each([[null], ['OK'], [17], [[]], ['~1:1;'], [new Uint8Array([255])]])('an invalid reply: %p', async (reply) => {
    const limiter = limiterBy(() => Promise.resolve(reply))
    expect(await rejectionOf(limiter.take('a'))).toMatchObject({ code: 'STORE_ERROR', charged: 'unknown' })
  })
})

test('a server that cannot run scripts yet is retried until the deadline', async () => {
  await using server = await RedisServer.start()
  const client = ioredis(server.port)
  const replies = ['LOADING Redis is loading the dataset in memory', 'READONLY You cannot write', 'BUSY Redis is busy']
  const limiter = limiterBy(
    ([name = '', ...args]) => {
      const message = replies.shift()
      return message === undefined ? client.call(name, ...args) : Promise.reject(new Error(message))
    },
    { commandTimeout: PATIENT_MS },
  )
  expect(await limiter.take('a')).toMatchObject({ allowed: true, remaining: ENDLESS.limit - 1 })
  const busy = limiterBy(() => Promise.reject(new Error('BUSY Redis is busy')))
  const { error, ms } = await outcome(busy.take('a'))
  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: false })
  expect(ms).toBeLessThan(TIMEOUT_MS + LATE_MS)
  client.disconnect()
})

test('too many calls at once are OVERLOADED, and a closed store is CLOSED', async () => {
  const answers: ((error: Error) => void)[] = []
  const store = RedisStore.from(() => new Promise((_, reject) => answers.push(reject)), { maxPending: 2 })
  const limiter = new RateLimiter(ENDLESS, { store, prefix: 'many' })
  const [first, second, third] = ['a', 'b', 'c'].map((key) => rejectionOf(limiter.take(key)))
  expect(await third).toMatchObject({ code: 'OVERLOADED', charged: false })
  expect(store.pending).toBe(2)
  const closed = store.close()
  expect(await rejectionOf(limiter.take('a'))).toMatchObject({ code: 'CLOSED' })
  await until('the calls have been sent', async () => answers.length > 0)
  for (const reject of answers) {
    reject(new Error('gone'))
  }
  expect(await Promise.all([first, second])).toMatchObject([
    { code: 'STORE_UNAVAILABLE' },
    { code: 'STORE_UNAVAILABLE' },
  ])
  await closed
  expect(store.pending).toBe(0)
})

test('while the store fails the embedded share decides', async () => {
  const store = RedisStore.from(() => Promise.reject(new Error('gone')))
  const onStoreFailure = { embedded: { share: 0.5 } } as const
  const limiter = new RateLimiter(fixedWindow({ limit: 4, window: '1d' }), { store, prefix: 'share', onStoreFailure })
  const decisions = [await limiter.take('a'), await limiter.take('a'), await limiter.take('a')]
  expect(decisions.map(({ status, source }) => `${status} ${source}`)).toEqual([
    'allowed fallback',
    'allowed-last fallback',
    'refused fallback',
  ])
  expect(await limiter.block('a', '1h')).toBe('fallback')
  expect(await limiter.take('a')).toMatchObject({ status: 'blocked', source: 'fallback' })
  expect(await limiter.override('b', { limit: 20 }, { ttl: '1h' })).toBe('fallback')
  expect((await limiter.take('b')).limit).toBe(10)
  const refusing = new RateLimiter(ENDLESS, { store, prefix: 'refusing', onStoreFailure: 'refuse' })
  expect([await refusing.block('a', '1h'), await refusing.reset('a')]).toEqual([false, false])
  const throwing = new RateLimiter(ENDLESS, { store, prefix: 'throwing' })
  expect(await rejectionOf(throwing.block('a', '1h'))).toMatchObject({ code: 'STORE_UNAVAILABLE' })
})

describe.each(Object.keys(CLIENT_STORES))('%s', (name) => {
  test('a server killed under load: every call settles by its deadline, none is charged twice, and calls work again', async () => {
    await using server = await RedisServer.start()
    const clientStore = await (CLIENT_STORES[name] as (typeof CLIENT_STORES)[string])(server.port, {
      commandTimeout: TIMEOUT_MS,
    })
    const limiter = new RateLimiter(ENDLESS, { store: clientStore.store, prefix: 'killed' })
    const outcomes: Outcome[] = []
    const failed = () => outcomes.some(({ error }) => error !== undefined)
    let isOver = false
    const callers = Array.from({ length: 16 }, async () => {
      while (!isOver) {
        outcomes.push(await outcome(limiter.take('key')))
      }
    })
    await until('calls are admitted', async () => outcomes.length > 100)
    await server.kill()
    await until('calls fail', async () => failed())
    await server.begin()
    await recovery(limiter as never, 'after')
    isOver = true
    await Promise.all(callers)
    const codes = kinds(outcomes.filter(({ error }) => error !== undefined))
    expect(codes.filter((code) => !/^(STORE_UNAVAILABLE (unknown|false)|STORE_TIMEOUT unknown)$/.test(code))).toEqual(
      [],
    )
    expect(Math.max(...outcomes.map(({ ms }) => ms))).toBeLessThan(TIMEOUT_MS + LATE_MS)
    await clientStore.store.close()
    await clientStore.close()
  })

  test('a frozen server: calls time out, and each is charged at most once', async () => {
    await using server = await RedisServer.start()
    const clientStore = await (CLIENT_STORES[name] as (typeof CLIENT_STORES)[string])(server.port, {
      commandTimeout: TIMEOUT_MS,
    })
    const limiter = new RateLimiter(ENDLESS, { store: clientStore.store, prefix: 'frozen' })
    await recovery(limiter as never, 'ready')
    server.freeze()
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => outcome(limiter.take('key'))))
    server.thaw()
    expect(kinds(outcomes)).toEqual(['STORE_TIMEOUT unknown'])
    const { limit, remaining } = await until('the server answers', () => limiter.peek('key', 0))
    expect(limit - remaining).toBeLessThanOrEqual(20)
    await clientStore.store.close()
    await clientStore.close()
  })
})
