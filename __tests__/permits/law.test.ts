/**
 * The law of permits: at most `limit` units at any time, over processes that stand still and end, and
 * answers that come late. An adversary chooses all of that, in virtual time; `law.deep.test.ts` does so
 * with real processes and servers.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import fc from 'fast-check'
import { concurrency, fixedWindow, MemoryStore, RateLimiter, RedisStore } from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { cases } from '../cases.js'
import { drivenRedis, startDriven } from '../driven-redis.js'
import { anything, rejectionOf } from '../failure.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import { until } from '../servers/until.js'
import { findExcess, type HolderEvent, type Interruption } from './trace.js'
import { VirtualProcess } from './virtual-process.js'

const LIMIT = 4

/** The life of permits in virtual time. */
const LIFE_MS = 300

const PROCESSES = 4

type Step =
  | {
      readonly kind: 'acquire'
      readonly process: number
      readonly calls: number
      readonly cost: number
      readonly maxWait: number
      readonly holdMs: number
    }
  | { readonly kind: 'pass'; readonly millis: number }
  | { readonly kind: 'stop'; readonly process: number; readonly millis: number }
  | { readonly kind: 'end'; readonly process: number }

const process = fc.nat(PROCESSES - 1)

const STEPS: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 20,
      arbitrary: fc.record({
        kind: fc.constant('acquire' as const),
        process,
        calls: fc.integer({ min: 1, max: 4 }),
        cost: fc.integer({ min: 1, max: 2 }),
        maxWait: fc.constantFrom(0, 200),
        // Some hold it for longer than it lasts without renewals.
        holdMs: fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 60 }) }, fc.constant(3 * LIFE_MS)),
      }),
    },
    {
      weight: 20,
      arbitrary: fc.record({ kind: fc.constant('pass' as const), millis: fc.integer({ min: 1, max: 80 }) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('stop' as const),
        process,
        // Permits survive the short times, and none survives the long ones.
        millis: fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: LIFE_MS, max: 3 * LIFE_MS })),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('end' as const), process }) },
  ),
  { minLength: 20, maxLength: 80 },
)

/** The execution of one schedule. */
class Schedule {
  readonly clock = new TestClock()
  readonly shared = new MemoryStore({ clock: this.clock })
  readonly traces = Array.from({ length: PROCESSES }, () => ({
    events: [] as HolderEvent[],
    interruptions: [] as Interruption[],
  }))
  readonly processes: VirtualProcess[]
  /** The calls without a result, by process. */
  readonly unsettled = this.traces.map(() => 0)
  readonly #limiters
  readonly #granted = new WeakSet<object>()
  #count = 0

  constructor(delayMs: () => number) {
    this.processes = this.traces.map(() => new VirtualProcess(this.shared, this.clock, delayMs))
    this.#limiters = this.processes.map((store) => this.limiterOn(store))
  }

  limiterOn(store: VirtualProcess | MemoryStore) {
    return new RateLimiter(concurrency({ limit: LIMIT, ttl: LIFE_MS }), { store: anything(store), prefix: 'law' })
  }

  async run(step: Step): Promise<void> {
    if (step.kind === 'pass') {
      await this.clock.advance(step.millis)
      return
    }
    const own = this.processes[step.process] as VirtualProcess
    const { interruptions } = this.traces[step.process] as (typeof this.traces)[number]
    const from = this.clock.now()
    switch (step.kind) {
      case 'acquire':
        for (let call = 0; call < step.calls; call++) {
          void this.#hold(step)
        }
        break
      case 'stop':
        own.stop(step.millis)
        if (step.millis >= LIFE_MS) {
          interruptions.push({ from, to: from + step.millis })
        }
        break
      case 'end':
        own.end()
        interruptions.push({ from, to: Number.POSITIVE_INFINITY })
    }
  }

  async #hold({ process, cost, maxWait, holdMs }: Extract<Step, { kind: 'acquire' }>): Promise<void> {
    const limiter = this.#limiters[process] as ReturnType<Schedule['limiterOn']>
    const { events } = this.traces[process] as (typeof this.traces)[number]
    this.#settle(process, 1)
    const permit = await limiter.acquire('hot', { cost, maxWait }).catch(() => undefined)
    this.#settle(process, -1)
    if (!permit?.allowed) {
      return
    }
    const id = `${process}/${this.#count++}`
    // A permit that was passed on in this process has the decision of its first holder.
    const at = this.#granted.has(permit.decision) ? this.clock.now() : permit.decision.at
    this.#granted.add(permit.decision)
    events.push({ kind: 'start', id, key: 'hot', units: cost, at })
    let hasEnded = false
    const end = () => {
      if (!hasEnded) {
        hasEnded = true
        events.push({ kind: 'end', id, at: this.clock.now() })
        permit.release().catch(() => {})
      }
    }
    permit.signal.addEventListener('abort', end)
    this.processes[process]?.after(holdMs, end)
  }

  #settle(process: number, change: number): void {
    this.unsettled[process] = (this.unsettled[process] as number) + change
  }
}

// promise: permits-law
test('four processes that stand still and end: never more than the limit, and nothing leaks', async () => {
  let [full, lost] = [0, 0]
  const delays = fc.infiniteStream(fc.double({ min: 0, max: 15, noNaN: true }))
  const property = fc.asyncProperty(STEPS, delays, async (steps, delay) => {
    const schedule = new Schedule(() => delay.next().value)
    const ended = new Set<number>()
    for (const step of steps) {
      if (step.kind === 'pass' || !ended.has(step.process)) {
        await schedule.run(step)
      }
      if (step.kind === 'end') {
        ended.add(step.process)
      }
    }
    await schedule.clock.advance(10 * LIFE_MS)
    const { traces, unsettled, shared } = schedule
    expect(findExcess(traces, LIMIT)).toBeUndefined()
    full += findExcess(traces, LIMIT - 1) === undefined ? 0 : 1
    lost += ended.size
    // What a process had asked for when it ended has no answer.
    expect(unsettled.filter((count, number) => count > 0 && !ended.has(number))).toEqual([])
    const whole = await schedule.limiterOn(shared).acquire('hot', { cost: LIMIT })
    expect(whole.allowed).toBe(true)
  })
  await fc.assert(property, cases(40))
  // The traces are dense enough to find an excess.
  expect(full).toBeGreaterThan(0)
  expect(lost).toBeGreaterThan(0)
})

describe('beside a rate', () => {
  const redis = drivenRedis()

  test('a refused rate takes no permit, and a refused permit charges no rate', async () => {
    const policies = { most: concurrency({ limit: 5, ttl: '5s' }), rate: fixedWindow({ limit: 40, window: '1h' }) }
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
      await redis.time.sleep(5 + (outcomes.admitted % 10))
      held--
      await permit.release()
    }
    for (let round = 0; round < 30; round++) {
      await redis.time.until(Promise.all(limiters.flatMap((limiter) => Array.from({ length: 6 }, () => call(limiter)))))
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
  const { server, time } = await startDriven()
  await using _ = server
  await using store = time.store()
  const [prefix, ttl] = ['killed', 3_000]
  const limiter = new RateLimiter(concurrency({ limit: LIMIT, ttl }), { store, prefix })
  const options = JSON.stringify({ url: server.url, prefix, limit: LIMIT, ttl })
  const holder = fork(join(__dirname, 'one-holder.cjs'), [options])
  expect(await once(holder, 'message')).toEqual([true, undefined])
  const exit = once(holder, 'exit')
  holder.kill('SIGKILL')
  await exit
  // The server's clock stood still, also for its renewals.
  await time.pass(ttl - 1)
  expect((await limiter.peek('key', 0)).remaining).toBe(0)
  await time.pass(1)
  expect((await limiter.peek('key', 0)).remaining).toBe(LIMIT)
  await limiter.close()
})

test('a permit whose answer comes after its life is an error, and is released', async () => {
  const { server, time } = await startDriven()
  await using _ = server
  await using proxy = await TcpProxy.start(server)
  await using store = time.drive(new RedisStore({ url: proxy.url, commandTimeout: 60_000 }))
  const limiter = new RateLimiter(concurrency({ limit: 1, ttl: 500 }), { store, prefix: 'late' })
  await using observer = new RedisStore({ url: server.url, commandTimeout: 60_000 })
  const other = new RateLimiter(concurrency({ limit: 1, ttl: 500 }), { store: observer, prefix: 'late' })
  await limiter.peek('k', 0)
  for (const maxWait of [0, 5_000]) {
    proxy.hold('down')
    const call = rejectionOf(limiter.acquire('k', { maxWait }))
    await until('the permit is granted', async () => (await other.peek('k', 0)).remaining === 0)
    time.skip(600)
    proxy.release()
    expect(await call).toMatchObject({ code: 'PERMIT_LOST', charged: false })
    await time.idle()
  }
  expect((await limiter.acquire('k')).allowed).toBe(true)
  await limiter.close()
  await other.close()
})
