/**
 * The law of permits under faults: at most `limit` units at any time, over processes and threads that
 * are killed and stopped, and a server that freezes, restarts, and whose answers are lost.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { concurrency, fixedWindow, RateLimiter, RedisStore } from '../../ts/index.js'
import { openedRedis } from '../redis/opened.js'
import { RedisServer } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import { until } from '../servers/until.js'
import { findExcess, type HolderEvent, type Interruption, type ProcessTrace } from './trace.js'

const LIMIT = 4
/** A signal is aborted a tenth before the end: longer than a busy machine delays an event loop. */
const EXPIRES_MS = 3_000
const KEYS = ['hot', 'hot', 'hot', 'a', 'b']

const folder = mkdtempSync(join(tmpdir(), 'tollgate-permits-'))

afterAll(() => rmSync(folder, { recursive: true }))

/** A process of `holding.cjs`. */
class Holding {
  readonly #file: string
  readonly #process: ChildProcess
  readonly #exit: Promise<unknown>
  readonly #interruptions: Interruption[] = []

  constructor(name: string, url: string, workers = 0) {
    this.#file = join(folder, name)
    writeFileSync(this.#file, '')
    const options = { url, file: this.#file, limit: LIMIT, expires: EXPIRES_MS, keys: KEYS, workers }
    this.#process = fork(join(__dirname, 'holding.cjs'), [JSON.stringify(options)])
    this.#exit = once(this.#process, 'exit')
  }

  get trace(): ProcessTrace {
    const lines = readFileSync(this.#file, 'utf8').split('\n')
    // A process may be killed while it writes its last line.
    const events = lines.slice(0, -1).map((line) => JSON.parse(line) as HolderEvent)
    return { events, interruptions: this.#interruptions }
  }

  /** Stops the process for longer than its permits last. */
  async stopBeyondExpiry(): Promise<void> {
    const from = Date.now()
    this.#process.kill('SIGSTOP')
    await sleep(EXPIRES_MS + 500)
    this.#interruptions.push({ from, to: Date.now() })
    this.#process.kill('SIGCONT')
  }

  async kill(): Promise<void> {
    this.#interruptions.push({ from: Date.now(), to: Number.POSITIVE_INFINITY })
    this.#process.kill('SIGKILL')
    await this.#exit
  }

  async end(): Promise<void> {
    if (this.#process.connected) {
      this.#process.disconnect()
    }
    await this.#exit
  }
}

// promise: permits-law
test('eight processes and threads, faults of all kinds: never more than the limit, and nothing leaks', async () => {
  await using server = await RedisServer.start({ config: ['appendonly yes', 'appendfsync always'] })
  await using proxy = await TcpProxy.start(server)
  const direct = [1, 2, 3].map((number) => new Holding(`direct ${number}`, server.url))
  const threads = new Holding('threads', server.url, 3)
  const proxied = [1, 2].map((number) => new Holding(`proxied ${number}`, proxy.url))
  const all = [...direct, threads, ...proxied]
  try {
    await sleep(1_500)
    await Promise.all([direct[0]?.stopBeyondExpiry(), sleep(700).then(() => threads.stopBeyondExpiry())])
    // Calls arrive, and their answers are lost.
    proxy.hold('down')
    await sleep(400)
    proxy.cut()
    proxy.release()
    await sleep(500)
    server.freeze()
    await sleep(EXPIRES_MS / 2)
    server.thaw()
    await sleep(500)
    await direct[1]?.kill()
    const another = new Holding('another', server.url)
    all.push(another)
    await sleep(1_000)
    server.freeze()
    await sleep(EXPIRES_MS + 500)
    server.thaw()
    await sleep(1_000)
    await server.kill()
    await sleep(200)
    await server.begin()
    await sleep(2_000)
    await another.kill()
  } finally {
    await Promise.all(all.map((one) => one.end()))
  }
  const traces = all.map(({ trace }) => trace)
  const starts = traces.flatMap(({ events }) => events.filter(({ kind }) => kind === 'start'))
  expect(starts.length).toBeGreaterThan(50)
  for (const { events } of traces) {
    expect(events.length).toBeGreaterThan(0)
  }
  expect(findExcess(traces, LIMIT)).toBeUndefined()
  // The trace is dense enough to find an excess.
  expect(findExcess(traces, LIMIT - 1)).toMatchObject({ units: LIMIT })
  await using store = new RedisStore(server.url)
  const limiter = new RateLimiter(concurrency({ limit: LIMIT, expires: EXPIRES_MS }), { store, prefix: 'law' })
  await sleep(EXPIRES_MS)
  for (const key of new Set(KEYS)) {
    const whole = await limiter.acquire(key, { cost: LIMIT })
    expect(whole.allowed).toBe(true)
  }
  await limiter.close()
}, 60_000)

describe('beside a rate', () => {
  const redis = openedRedis()

  test('a refused rate takes no permit, and a refused permit charges no rate', async () => {
    const policies = { most: concurrency({ limit: 5, expires: '5s' }), rate: fixedWindow({ limit: 40, window: '1h' }) }
    const limiters = ['one', 'two'].map((_) => new RateLimiter(policies, { store: redis.store, prefix: 'both' }))
    const outcomes = { admitted: 0, most: 0, rate: 0 }
    let [held, mostHeld] = [0, 0]
    const call = async (limiter: (typeof limiters)[number]) => {
      const permit = await limiter.acquire('k')
      if (!permit.allowed) {
        outcomes[permit.decision.policy as 'most' | 'rate']++
        return
      }
      outcomes.admitted++
      mostHeld = Math.max(mostHeld, ++held)
      await sleep(5 + Math.random() * 10)
      held--
      await permit.release()
    }
    for (let round = 0; round < 30; round++) {
      await Promise.all(limiters.flatMap((limiter) => Array.from({ length: 6 }, () => call(limiter))))
    }
    expect(outcomes.admitted).toBe(40)
    expect(outcomes.most).toBeGreaterThan(0)
    expect(outcomes.rate).toBeGreaterThan(0)
    expect(mostHeld).toBe(5)
    const { policies: left } = await (limiters[0] as (typeof limiters)[number]).peek('k', 0)
    expect([left.most.remaining, left.rate.remaining]).toEqual([5, 0])
    for (const limiter of limiters) {
      await limiter.close()
    }
  })
})

// promise: permits-of-killed-process
test('a holder that is killed frees its permit within its life', async () => {
  await using server = await RedisServer.start()
  const holding = new Holding('killed', server.url)
  await using store = new RedisStore(server.url)
  const limiter = new RateLimiter(concurrency({ limit: LIMIT, expires: EXPIRES_MS }), { store, prefix: 'law' })
  await until('it holds permits', async () => (await limiter.peek('hot', 0)).remaining < LIMIT)
  await holding.kill()
  await sleep(EXPIRES_MS)
  expect((await limiter.peek('hot', 0)).remaining).toBe(LIMIT)
  await limiter.close()
})

test('a permit whose answer comes after its life is an error, and is released', async () => {
  await using server = await RedisServer.start()
  await using proxy = await TcpProxy.start(server)
  await using store = new RedisStore({ url: proxy.url, commandTimeoutMs: 5_000 })
  const limiter = new RateLimiter(concurrency({ limit: 1, expires: 500 }), { store, prefix: 'late' })
  await limiter.peek('k', 0)
  for (const maxWaitMs of [0, 5_000]) {
    proxy.hold('down')
    const call = limiter.acquire('k', { maxWaitMs })
    await sleep(600)
    proxy.release()
    await expect(call).rejects.toMatchObject({ code: 'PERMIT_LOST', charged: false })
  }
  expect((await limiter.acquire('k')).allowed).toBe(true)
  await limiter.close()
})
