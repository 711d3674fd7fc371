/**
 * The time for which a store keeps its process alive, the effects of closing it, and the async
 * context of calls.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fixedWindow, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { LATE_MS, outcome, PATIENT_MS } from '../help.js'

/** The errors of a call without a server. */
const FAILED = /^STORE_UNAVAILABLE$/

const ENDLESS = fixedWindow({ limit: 1_000_000_000, window: '1d' })

/** A deadline that no test reaches, in milliseconds. */
const ENDLESS_MS = '3600000'

let server: RedisServer

beforeEach(async () => {
  server = await RedisServer.reserve()
})

afterEach(() => server.stop())

/** A process, and its exit. */
function run(file: string, ...words: string[]) {
  const child: ChildProcess = spawn(process.execPath, [join(__dirname, '..', 'programs', file), ...words])
  const ended = Promise.all([
    text(child.stdout as NodeJS.ReadableStream),
    text(child.stderr as NodeJS.ReadableStream),
    once(child, 'exit'),
  ]).then(([out, errors, [code, signal]]) => {
    const lines = out.split('\n').filter((line) => line !== '')
    return { lines, errors, code, signal }
  })
  return { child, ended }
}

/** The normal exit of a process. */
function well(...lines: unknown[]) {
  return { lines, errors: '', code: 0, signal: null }
}

describe('a process that closes nothing', () => {
  test('exits when its calls have been answered', async () => {
    await server.begin()
    // Neither the connection nor the deadline timer keeps it alive: they would do so for longer than this test may take.
    expect(await run('exits.mjs', server.url, ENDLESS_MS, '3').ended).toEqual(
      well('started', 'allowed', 'allowed-last', 'refused'),
    )
  })

  test('exits without a server if it has made no call', async () => {
    expect(await run('exits.mjs', server.url, ENDLESS_MS, '0').ended).toEqual(well('started'))
  })

  test('stays alive until its calls are answered', async () => {
    const { child, ended } = run('exits.mjs', server.url, ENDLESS_MS, '3')
    await once(child.stdout as NodeJS.ReadableStream, 'data')
    await server.begin()
    expect(await ended).toEqual(well('started', 'allowed', 'allowed-last', 'refused'))
  })

  test('stays alive until its calls have failed', async () => {
    expect(await run('exits.mjs', server.url, '300', '3').ended).toEqual(
      well('started', ...Array(3).fill(expect.stringMatching(FAILED))),
    )
  })
})

test('unclosed stores lose their connections when they are garbage-collected', async () => {
  await server.begin()
  expect(await run('forgotten.mjs', server.url).ended).toEqual(well('10', '0'))
})

test('worker threads terminated during a call do not affect their process', async () => {
  await server.begin()
  const end = await run('terminated.mjs', server.url).ended
  const [used] = end.lines
  expect(end).toEqual(well(used))
  // At least the calls that made the workers ready, and the last.
  expect(Number(used)).toBeGreaterThan(32)
})

test('threads that use Redis in turn all reach it, also when no thread has the addon loaded between them', async () => {
  await server.begin()
  expect(await run('workers-in-turn.mjs', server.url, '60', `${PATIENT_MS}`).ended).toEqual(well('60'))
})

describe('close', () => {
  /** Starts 10,000 calls, closes immediately, and returns the outcomes and the count. */
  async function closed(options: Partial<RedisStoreOptions>, what: 'limiter' | 'store') {
    const store = new RedisStore({ url: server.url, ...options })
    const limiter = new RateLimiter(ENDLESS, { store, prefix: 'closed' })
    const calls = Array.from({ length: 10_000 }, (_, index) => outcome(limiter.take(`${index % 100}`)))
    const start = performance.now()
    const closing = (what === 'store' ? store : limiter).close()
    const late = await outcome(limiter.take('late'))
    expect(late.error?.code).toBe('CLOSED')
    await closing
    const ms = performance.now() - start
    const outcomes = await Promise.all(calls)
    await store.close()
    return { outcomes, ms }
  }

  test.each(['limiter', 'store'] as const)('of a %s lets pending calls be decided', async (what) => {
    await server.begin()
    const { outcomes } = await closed({ commandTimeout: PATIENT_MS }, what)
    expect(outcomes.filter(({ decision }) => decision?.allowed === true).length).toBe(10_000)
    await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
    const decisions = await new RateLimiter(ENDLESS, { store, prefix: 'closed' }).takeMany(
      Array.from({ length: 100 }, (_, index) => `${index}`),
    )
    expect(decisions.map(({ limit, remaining }) => limit - remaining)).toEqual(Array(100).fill(101))
  })

  test.each(['limiter', 'store'] as const)('of a %s waits no longer than the deadline', async (what) => {
    const { outcomes, ms } = await closed({ commandTimeout: 300 }, what)
    expect(outcomes.filter(({ error }) => !FAILED.test(`${error?.code}`)).length).toBe(0)
    expect(ms).toBeLessThan(300 + LATE_MS)
  })
})

describe('calls resolve in the async context in which they were made', () => {
  const context = new AsyncLocalStorage<string>()

  /**
   * Makes calls in `count` contexts in one tick, and returns the contexts in which they resolved.
   */
  async function contexts(limiter: RateLimiter, count: number, call: (limiter: RateLimiter) => Promise<unknown>) {
    const names = Array.from({ length: count }, (_, index) => `caller ${index}`)
    const seen = names.map((name) =>
      context.run(name, async () => {
        const seen = []
        for (let turn = 0; turn < 3; turn++) {
          await call(limiter).catch(() => {})
          seen.push(context.getStore())
        }
        return seen
      }),
    )
    expect(await Promise.all(seen)).toEqual(names.map((name) => [name, name, name]))
    expect(context.getStore()).toBeUndefined()
  }

  // Leases, permits, waits, watched policies and clients set timers, and live longer than the call that starts them.
  test('and nothing that outlives them keeps it', async () => {
    await server.begin()
    expect(await run('contexts.mjs', server.url).ended).toEqual(well('[]'))
  })

  // Two calls are a batch that waits for the end of the tick; 300 fill batches, which are sent
  // within a caller's own call.
  test.each([2, 300])('%i callers', async (count) => {
    await server.begin()
    await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
    const limiter = new RateLimiter(fixedWindow({ limit: 1_000, window: '1d' }), { store, prefix: 'context' })
    await contexts(limiter, count, (limiter) => limiter.take('key'))
    await contexts(limiter, count, (limiter) => limiter.takeMany(['key', 'other']))
    await contexts(limiter, count, (limiter) => limiter.peek('key'))
    await contexts(limiter, count, (limiter) => limiter.take(''))
  })

  test('callers whose calls fail', async () => {
    await using store = new RedisStore({ url: server.url, commandTimeout: 50 })
    const limiter = new RateLimiter(ENDLESS, { store, prefix: 'context' })
    await contexts(limiter, 300, (limiter) => limiter.take('key'))
  })
})
