/** The wrapper around processors, without BullMQ: charges, delays, permits, signals, refusals and failures. */
import { rateLimited } from '../../ts/bullmq/index.js'
import {
  concurrency,
  fixedWindow,
  gcra,
  MemoryStore,
  RateLimiter,
  RedisStore,
  slidingLog,
  tiers,
} from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { FakeJob } from './fake-job.js'

const hour = fixedWindow({ limit: 2, window: '1h' })

const done = async (job: FakeJob) => `done ${job.id}`

const key = ({ data }: FakeJob) => data.customer

/** Runs a job, and returns the name of its error, or its result. */
async function outcome(run: Promise<unknown>): Promise<unknown> {
  return await run.catch(({ name }: Error) => name)
}

async function errorOf(run: Promise<unknown>): Promise<Error> {
  return await run.then(
    () => new Error('the job has run'),
    (error) => error,
  )
}

/** A processor whose jobs run until the test ends them. */
function heldProcessor() {
  const ends: ((end: Error | string) => void)[] = []
  const signals: (AbortSignal | undefined)[] = []
  const processor = (_job: FakeJob, _token?: string, signal?: AbortSignal) =>
    new Promise<string>((resolve, reject) => {
      signals.push(signal)
      ends.push((end) => (typeof end === 'string' ? resolve(end) : reject(end)))
    })
  return { processor, ends, signals }
}

describe('a job', () => {
  test('runs if its group has room, and is delayed until its turn otherwise', async () => {
    const limiter = new RateLimiter(gcra({ limit: 1, period: '1m', burst: 2 }))
    const run = rateLimited(done, { limiter, key })
    const jobs = ['1', '2', '3', '4', '5'].map((id) => new FakeJob(id))
    const outcomes = []
    for (const job of jobs) {
      outcomes.push(await outcome(run(job, `token ${job.id}`, undefined)))
    }
    expect(outcomes).toEqual(['done 1', 'done 2', 'DelayedError', 'DelayedError', 'DelayedError'])
    // Each has a turn of its own, at the rate of the group.
    expect(jobs.flatMap(({ delays }) => delays.map((delay) => Math.round(delay / 60_000)))).toEqual([1, 2, 3])
    expect(jobs.flatMap(({ tokens }) => tokens)).toEqual(['token 3', 'token 4', 'token 5'])
    expect(await outcome(run(new FakeJob('6', { customer: 'b' }), 't', undefined))).toBe('done 6')
  })

  test('of a group without a burst waits in its slot if its turn is near, one at a time', async () => {
    const clock = new TestClock()
    const limiter = new RateLimiter(gcra({ limit: 50, period: '1s', burst: 1 }), { store: new MemoryStore({ clock }) })
    const run = rateLimited(done, { limiter, key })
    const jobs = ['1', '2', '3'].map((id) => new FakeJob(id))
    const [first, second, third] = jobs.map((job) => outcome(run(job, 't', undefined)))
    expect([await first, await third]).toEqual(['done 1', 'DelayedError'])
    await clock.advance('20ms')
    expect(await second).toBe('done 2')
    expect(jobs.map(({ delays }) => delays.length)).toEqual([0, 0, 1])
  })

  test('has its turn by the limit that refuses it, of a log with several', async () => {
    const log = slidingLog({ limits: { often: { limit: 1, window: '1m' }, rarely: { limit: 60, window: '100h' } } })
    const limiter = new RateLimiter({ log, rate: fixedWindow({ limit: 9, window: '1h' }) })
    const run = rateLimited(done, { limiter, key })
    const jobs = ['1', '2', '3'].map((id) => new FakeJob(id))
    for (const job of jobs) {
      await outcome(run(job, 't', undefined))
    }
    expect(jobs.flatMap(({ delays }) => delays.map((delay) => Math.round(delay / 60_000)))).toEqual([1, 2])
  })

  test('that is delivered again is not charged again, unless an attempt has failed or it is another job', async () => {
    const limiter = new RateLimiter(fixedWindow({ limit: 10, window: '1h' }))
    const run = rateLimited(done, { limiter, key })
    const used = async () => (await limiter.peek('a')).used
    const job = new FakeJob('1')
    await run(job, 't', undefined)
    job.attemptsStarted = 2
    await run(job, 't', undefined)
    expect(await used()).toBe(1)
    job.attemptsMade = 1
    await run(job, 't', undefined)
    expect(await used()).toBe(2)
    await run(Object.assign(new FakeJob('1'), { timestamp: 1 }), 't', undefined)
    await run(Object.assign(new FakeJob('1'), { queueQualifiedName: 'bull:other' }), 't', undefined)
    await run(new FakeJob('x'.repeat(1_000)), 't', undefined)
    expect(await used()).toBe(5)
    const once = rateLimited(done, { limiter, key, chargeRetries: false })
    const retried = new FakeJob('2')
    await once(retried, 't', undefined)
    retried.attemptsMade = 1
    await once(retried, 't', undefined)
    expect(await used()).toBe(6)
  })

  test('costs what cost returns, by meter and by tier', async () => {
    const limiter = new RateLimiter({
      mails: tiers({
        free: { ...hour, meter: 'mails' as const },
        pro: fixedWindow({ limit: 50, window: '1h', meter: 'mails' }),
      }),
      bytes: fixedWindow({ limit: 1_000, window: '1h', meter: 'bytes' }),
    })
    const run = rateLimited(done, {
      limiter,
      key: async ({ data }: FakeJob) => data.customer,
      cost: ({ data }: FakeJob) => ({ mails: 1, bytes: data.size ?? 0 }),
      tier: ({ data }: FakeJob) => (data.customer === 'a' ? 'free' : 'pro'),
    })
    const outcomes = []
    for (const id of ['1', '2', '3']) {
      outcomes.push(await outcome(run(new FakeJob(id, { customer: 'a', size: 100 }), 't', undefined)))
      outcomes.push(await outcome(run(new FakeJob(id, { customer: 'b', size: 400 }), 't', undefined)))
    }
    expect(outcomes).toEqual(['done 1', 'done 1', 'done 2', 'done 2', 'DelayedError', 'DelayedError'])
    const { policies } = await limiter.peek('b', { cost: { mails: 0, bytes: 0 }, tier: 'pro' })
    expect([policies.mails.used, policies.bytes.used]).toEqual([2, 800])
  })

  test('fails at once if its cost never fits, and by its error if its key or cost is wrong', async () => {
    const limiter = new RateLimiter(hour)
    const error = await errorOf(rateLimited(done, { limiter, key, cost: 3 })(new FakeJob('1'), 't', undefined))
    expect([error.name, error.message]).toEqual([
      'UnrecoverableError',
      'the cost of the job never fits under "default": the largest cost is 2',
    ])
    const run = rateLimited(done, { limiter, key, cost: ({ data }: FakeJob) => data.size ?? 1 })
    await expect(run(new FakeJob('1', { customer: '' }), 't', undefined)).rejects.toMatchObject({ code: 'INVALID_KEY' })
    await expect(run(new FakeJob('1', { customer: 'a', size: -1 }), 't', undefined)).rejects.toMatchObject({
      code: 'INVALID_COST',
    })
    const failing = rateLimited(() => Promise.reject(new Error('smtp')), { limiter, key })
    await expect(failing(new FakeJob('1'), 't', undefined)).rejects.toThrow('smtp')
  })

  test('of a blocked group is delayed until the end of the block', async () => {
    const limiter = new RateLimiter(hour)
    await limiter.block('a', '10m')
    const job = new FakeJob('1')
    expect(await outcome(rateLimited(done, { limiter, key })(job, 't', undefined))).toBe('DelayedError')
    expect(Math.round((job.delays[0] as number) / 60_000)).toBe(10)
  })

  test('of a group with a short window is promoted at its turn, however many jobs of others are blocked', async () => {
    const limiter = new RateLimiter(gcra({ limit: 50, period: '1s', burst: 2 }))
    await limiter.block('a', '30d')
    const run = rateLimited(done, { limiter, key })
    await Promise.all(Array.from({ length: 10_000 }, (_, id) => outcome(run(new FakeJob(String(id)), 't', undefined))))
    const job = new FakeJob('1', { customer: 'b' })
    for (let timestamp = 0; job.delays.length === 0; timestamp++) {
      await outcome(run(Object.assign(job, { timestamp }), 't', undefined))
    }
    while (job.promotions === 0) {
      await new Promise(setImmediate)
    }
    await limiter.close()
  })

  test('that could not be moved is left to BullMQ, and does not fail', async () => {
    const limiter = new RateLimiter(hour)
    await limiter.block('a', '10m')
    const lost = new Error('Missing lock for job 1. moveToDelayed')
    const job = Object.assign(new FakeJob('1'), { moveToDelayed: () => Promise.reject(lost) })
    const error = await errorOf(rateLimited(done, { limiter, key })(job, 't', undefined))
    expect([error.name, error.cause]).toEqual(['DelayedError', lost])
  })

  test('is charged without an id if its key has too many ids', async () => {
    const limiter = new RateLimiter(fixedWindow({ limit: 20_000, window: '1h' }))
    for (let id = 0; id < 10_000; id++) {
      await limiter.take('a', { id: String(id), idTtl: '1h' })
    }
    expect(await outcome(rateLimited(done, { limiter, key })(new FakeJob('1'), 't', undefined))).toBe('done 1')
    expect((await limiter.peek('a')).used).toBe(10_001)
  })
})

describe('without a store', () => {
  const store = () => new RedisStore({ url: 'redis://127.0.0.1:9', commandTimeout: '50ms' })

  test.each(['throw', 'refuse'] as const)(
    'jobs are delayed, one by one, with onStoreFailure %s',
    async (onStoreFailure) => {
      await using away = store()
      const limiter = new RateLimiter(hour, { store: away, prefix: 'mail', onStoreFailure })
      const run = rateLimited(done, { limiter, key })
      const jobs = ['1', '2', '3'].map((id) => new FakeJob(id))
      expect(await Promise.all(jobs.map((job) => outcome(run(job, 't', undefined))))).toEqual(
        Array(3).fill('DelayedError'),
      )
      expect(Math.min(...jobs.flatMap(({ delays }) => delays))).toBeGreaterThan(900)
      const [first, second, third] = jobs.flatMap(({ turns }) => turns).sort() as [number, number, number]
      expect(Math.min(second - first, third - second)).toBeGreaterThanOrEqual(10)
    },
  )

  test('they run with onStoreFailure allow', async () => {
    await using away = store()
    const limiter = new RateLimiter(hour, { store: away, prefix: 'mail', onStoreFailure: 'allow' })
    expect(await outcome(rateLimited(done, { limiter, key })(new FakeJob('1'), 't', undefined))).toBe('done 1')
  })

  test('jobs are delayed after the limiter was closed', async () => {
    const limiter = new RateLimiter(hour)
    await limiter.close()
    expect(await outcome(rateLimited(done, { limiter, key })(new FakeJob('1'), 't', undefined))).toBe('DelayedError')
  })
})

describe('permits', () => {
  test('bound the jobs of a group that run at once, and a released one promotes the next job', async () => {
    const limiter = new RateLimiter({
      rate: fixedWindow({ limit: 9, window: '1h' }),
      atOnce: concurrency({ limit: 1 }),
    })
    const { processor, ends } = heldProcessor()
    const run = rateLimited(processor, { limiter, key })
    const jobs = ['1', '2', '3'].map((id) => new FakeJob(id))
    const [first, ...others] = jobs.map((job) => outcome(run(job, 't', undefined)))
    expect(await Promise.all(others)).toEqual(['DelayedError', 'DelayedError'])
    ends[0]?.('sent')
    expect(await first).toBe('sent')
    expect(jobs.map(({ promotions }) => promotions)).toEqual([0, 1, 0])
    const second = outcome(run(jobs[1] as FakeJob, 't', undefined))
    while (ends.length < 2) {
      await new Promise(setImmediate)
    }
    ends[1]?.(new TypeError('failed'))
    expect(await second).toBe('TypeError')
    expect(jobs.map(({ promotions }) => promotions)).toEqual([0, 1, 1])
    const { policies } = await limiter.peek('a', 0)
    expect([policies.rate.used, policies.atOnce.used]).toEqual([2, 0])
    await limiter.close()
  })

  test('a job whose permit was lost is delayed if its processor rejects', async () => {
    const limiter = new RateLimiter(concurrency({ limit: 1, ttl: '100ms' }))
    const { processor, ends, signals } = heldProcessor()
    const job = new FakeJob('1')
    const running = outcome(rateLimited(processor, { limiter, key })(job, 't', new AbortController().signal))
    while (signals.length === 0) {
      await new Promise(setImmediate)
    }
    await limiter.reset('a')
    await new Promise((resolve) => signals[0]?.addEventListener('abort', resolve))
    expect(signals[0]?.reason).toMatchObject({ code: 'PERMIT_LOST' })
    ends[0]?.(new Error('aborted'))
    expect(await running).toBe('DelayedError')
    expect(job.delays).toHaveLength(1)
    await limiter.close()
  })

  test('the signal of BullMQ is passed on, and a job that it ends fails', async () => {
    const limiter = new RateLimiter(concurrency({ limit: 1 }))
    const { processor, ends, signals } = heldProcessor()
    const cancelled = new AbortController()
    const run = rateLimited(processor, { limiter, key })
    // Otherwise BullMQ makes no signal.
    expect(run).toHaveLength(3)
    const running = outcome(run(new FakeJob('1'), 't', cancelled.signal))
    while (signals.length === 0) {
      await new Promise(setImmediate)
    }
    cancelled.abort(new Error('cancelled'))
    expect(signals[0]?.reason).toEqual(new Error('cancelled'))
    ends[0]?.(new RangeError('ended'))
    expect(await running).toBe('RangeError')
    await limiter.close()
  })
})

const limiter = new RateLimiter(hour)

test.each([
  ['./worker.js', { limiter, key: 'a' }, 'processor must be a function, got "./worker.js"'],
  [done, { key: 'a' }, 'limiter must be a RateLimiter, got undefined'],
  [done, { limiter }, 'key must be a key, or a function that tells the key of a job, got undefined'],
  [done, { limiter, key: 'a', idTtl: '2d' }, 'idTtl must be a whole number from 1 to 86400000 milliseconds, got "2d"'],
  [done, { limiter, key: 'a', chargeRetries: 1 }, 'chargeRetries must be true or false, got 1'],
  [
    done,
    { limiter, keys: 'a' },
    'rateLimited has no option "keys"; did you mean "key"? It takes limiter, key, cost, tier, chargeRetries, idTtl',
  ],
])('wrong options are errors: %s %o', (processor, options, message) => {
  const make = rateLimited as unknown as (processor: unknown, options: unknown) => unknown
  expect(() => make(processor, options)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION', message }))
})
