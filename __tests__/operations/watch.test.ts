/** `watchPolicies`: numbers that are kept elsewhere. */
import { fork } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gcra, type PolicyWatch, RateLimiter, watchPolicies } from '../../ts/index.js'
import { failureOf, rejectionOf } from '../failure.js'
import { VirtualTime } from '../local/virtual-time.js'
import { warningsOf } from '../middleware/warnings.js'
import { openedRedis } from '../redis/opened.js'
import { until } from '../servers/until.js'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-watch-'))
})
afterAll(() => rm(folder, { recursive: true }))

const watches: PolicyWatch[] = []
afterEach(() => {
  for (const watch of watches.splice(0)) {
    watch.stop()
  }
})

function watched(limiter: Parameters<typeof watchPolicies>[0], read: () => unknown, options?: object): PolicyWatch {
  const watch = watchPolicies(limiter, read, options)
  watches.push(watch)
  return watch
}

test('a limiter follows a file', async () => {
  const file = join(folder, 'limits.json')
  const write = (limit: number) => writeFile(file, JSON.stringify(gcra({ limit, period: '1m' })))
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1m' }))
  await write(2)
  const watch = watched(limiter, async () => JSON.parse(await readFile(file, 'utf8')), { every: '10ms' })
  await watch.refresh()
  expect(limiter.takeSync('a', 2).status).toBe('allowed-last')
  await write(3)
  await until('the new numbers are used', async () => limiter.takeSync('b', 0 + 1).limit === 3)
})

test('equal numbers are no update, and a failure keeps the numbers', async () => {
  const updates: unknown[] = []
  const errors: unknown[] = []
  let next: () => unknown = () => gcra({ limit: 5, period: '1m' })
  const limiter = { update: (policies: never) => void updates.push(policies) }
  const watch = watched(limiter, () => next(), { every: '10ms', onError: (error: unknown) => errors.push(error) })
  await watch.refresh()
  await watch.refresh()
  expect(updates).toHaveLength(1)
  next = () => {
    throw new Error('no such file')
  }
  await expect(watch.refresh()).rejects.toThrow('no such file')
  await until('the failure is reported', async () => errors.length > 0)
  next = () => undefined
  expect((await rejectionOf(watch.refresh())).message).toBe('watchPolicies: read must return policies, got undefined')
  expect(updates).toHaveLength(1)
})

test('without onError a failure is one process warning', async () => {
  const limiter = new RateLimiter(gcra({ limit: 1, period: '1m' }))
  const time = new VirtualTime()
  const restore = time.replaceTimers()
  let reads = 0
  const read = () => {
    reads++
    return { algorithm: 'fixedWindow', limit: 1, window: 1_000 }
  }
  const warned = await warningsOf(async () => {
    watched(limiter, read, { every: '10ms' })
    await time.advance(100)
  }).finally(restore)
  expect(reads).toBe(10)
  const message = 'watchPolicies: the limiter keeps its numbers: update: policies must differ in numbers only'
  expect(warned).toMatchObject([{ code: 'TOLLGATE_UPDATE_FAILED', message: expect.stringContaining(message) }])
})

test('a watch that is stopped reads no more, and a read under way updates nothing', async () => {
  let reads = 0
  let resolve: (policies: unknown) => void = () => {}
  const updates: unknown[] = []
  const read = () => {
    reads++
    return new Promise((settle) => {
      resolve = settle
    })
  }
  const time = new VirtualTime()
  const restore = time.replaceTimers()
  try {
    const watch = watched({ update: (policies: never) => void updates.push(policies) }, read, { every: '10ms' })
    await time.advance(10)
    expect(reads).toBe(1)
    watch.stop()
    resolve(gcra({ limit: 1, period: '1s' }))
    await time.advance(1_000)
    expect([reads, updates]).toEqual([1, []])
  } finally {
    restore()
  }
})

test('a read that hangs fails at its deadline, later reads go on, and its late answer is dropped', async () => {
  const late: ((policies: unknown) => void)[] = []
  const updates: unknown[] = []
  const errors: unknown[] = []
  const policy = gcra({ limit: 7, period: '1m' })
  let hangs = true
  const read = () => (hangs ? new Promise((resolve) => late.push(resolve)) : policy)
  const time = new VirtualTime()
  const restore = time.replaceTimers()
  try {
    const limiter = { update: (policies: never) => void updates.push(policies) }
    const onError = (error: unknown) => errors.push(error)
    const watch = watched(limiter, read, { every: '10ms', timeout: '1s', onError })
    await time.advance(1_009)
    expect(errors).toEqual([])
    await time.advance(1)
    const timedOut = { code: 'STORE_TIMEOUT', message: 'watchPolicies: read must return policies within 1000ms' }
    expect(errors).toMatchObject([timedOut])
    const refreshed = rejectionOf(watch.refresh())
    await time.advance(1_000)
    expect(await refreshed).toMatchObject(timedOut)
    hangs = false
    await time.advance(2_000)
    expect(updates).toEqual([policy])
    for (const resolve of late) resolve(gcra({ limit: 1, period: '1m' }))
    await time.advance(1_000)
    expect(updates).toEqual([policy])
  } finally {
    restore()
  }
})

test('without an option a read has ten seconds', async () => {
  const time = new VirtualTime()
  const restore = time.replaceTimers()
  try {
    const watch = watched({ update() {} }, () => new Promise(() => {}))
    let isSettled = false
    const refreshed = rejectionOf(watch.refresh()).finally(() => {
      isSettled = true
    })
    await time.advance(9_999)
    expect(isSettled).toBe(false)
    await time.advance(1)
    expect((await refreshed).code).toBe('STORE_TIMEOUT')
  } finally {
    restore()
  }
})

test.each([
  [[{}, () => {}], 'watchPolicies: limiter must be a RateLimiter, got an object'],
  [[{ update() {} }, 'limits.json'], 'watchPolicies: read must be a function that returns policies'],
  [[{ update() {} }, () => {}, { every: '1ms' }], "watchPolicies: every must be from '10ms' to '1d'"],
  [[{ update() {} }, () => {}, { timeout: '2d' }], "watchPolicies: timeout must be from '10ms' to '1d'"],
  [[{ update() {} }, () => {}, { onError: 1 }], 'watchPolicies: onError must be a function'],
  [[{ update() {} }, () => {}, { interval: 1 }], 'watchPolicies has no option "interval"'],
])('mistakes %#', (args, message) => {
  const watch = watchPolicies as (...given: unknown[]) => unknown
  expect(failureOf(() => watch(...args)).message).toContain(message)
})

describe('over Redis', () => {
  const redis = openedRedis()

  test('four processes that change at different times admit at most the larger burst and rate', async () => {
    const file = join(folder, 'processes.json')
    const [low, high] = [gcra({ limit: 50, period: '1s', burst: 5 }), gcra({ limit: 200, period: '1s', burst: 40 })]
    await writeFile(file, JSON.stringify(high))
    const seconds = async () => Number((await redis.server.command<[string, string]>('TIME'))[0])
    const began = await seconds()
    const processes = [1, 2, 3, 4].map((number) => {
      const program = fork(join(__dirname, 'watching.cjs'), [redis.server.url, file, String(60 * number)])
      const admitted: number[] = []
      let capacity = 0
      program.on('message', (message: { readonly admitted: number; readonly capacity: number }) => {
        admitted.push(message.admitted)
        capacity = message.capacity
      })
      return { program, admitted, capacity: () => capacity }
    })
    const all = async (capacity: number) => {
      await until(`all processes have the capacity ${capacity}`, async () =>
        processes.every((one) => one.capacity() === capacity),
      )
      const ends = processes.map(({ admitted }) => admitted.length + 10)
      await until('all call under it', async () =>
        processes.every(({ admitted }, index) => admitted.length >= (ends[index] as number)),
      )
    }
    await all(40)
    for (const numbers of [low, high, low]) {
      await writeFile(file, JSON.stringify(numbers))
      await all(numbers.burst as number)
    }
    const ends = processes.map(({ program }) => new Promise((resolve) => program.once('exit', resolve)))
    for (const { program } of processes) {
      program.disconnect()
    }
    await Promise.all(ends)
    // Whole seconds of the server's clock.
    const passed = (await seconds()) - began + 1
    const admitted = processes.flatMap((one) => one.admitted).reduce((sum, units) => sum + units, 0)
    expect(admitted).toBeGreaterThan(40)
    expect(admitted).toBeLessThanOrEqual(40 + 200 * passed)
  })
})
