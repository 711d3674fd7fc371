/** Workers of BullMQ in several processes over a real Redis, of which one is killed while its jobs run. */
import { EventEmitter, once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { concurrency, fixedWindow, RateLimiter, RedisStore } from '../../../ts/index.js'
import { PATIENT_MS } from '../../redis/help.js'
import { RedisServer } from '../../servers/redis-server.js'
import { startProgram } from '../node.js'

interface Line {
  readonly begun?: string
  readonly ended?: string
  readonly completed?: string
  readonly failed?: string
  readonly message?: string
  readonly group?: string
  readonly at: number
  readonly picks?: number
  readonly attemptsMade?: number
}

/** Emits `line` for each line of any worker. */
const output = new EventEmitter()

const started: { kill(signal: 'SIGKILL'): boolean }[] = []

afterEach(() => {
  for (const program of started.splice(0)) {
    program.kill('SIGKILL')
  }
})

function startWorker(options: object) {
  const program = startProgram(join(__dirname, 'worker.mjs'), JSON.stringify({ version: 'bullmq', ...options }))
  const lines: Line[] = []
  const reader = createInterface(program.stdout).on('line', (line) => {
    lines.push(JSON.parse(line))
    output.emit('line')
  })
  started.push(program)
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    const closed = once(reader, 'close')
    program.kill(signal)
    await closed
  }
  return { lines, end }
}

type Worker = ReturnType<typeof startWorker>

/** The lines of a kind, of all workers. */
function linesOf(workers: readonly Worker[], kind: 'begun' | 'ended' | 'completed' | 'failed'): Line[] {
  return workers.flatMap(({ lines }) => lines.filter((line) => line[kind] !== undefined))
}

async function has(workers: readonly Worker[], count: number, kind: 'begun' | 'completed'): Promise<void> {
  while (linesOf(workers, kind).length < count) {
    await once(output, 'line')
  }
}

/** The most jobs of a group that ran at once. */
function mostAtOnce(workers: readonly Worker[], group: string): number {
  const edges = workers.flatMap(({ lines }) => lines).filter((line) => line.group === group)
  // An end comes before a beginning of the same millisecond.
  edges.sort(
    (one, other) => one.at - other.at || (one.begun === undefined ? 0 : 1) - (other.begun === undefined ? 0 : 1),
  )
  let [running, most] = [0, 0]
  for (const { begun } of edges) {
    running += begun === undefined ? -1 : 1
    most = Math.max(most, running)
  }
  return most
}

test.each(['bullmq', 'bullmq-5'])(
  '%s: delayed jobs count no attempt, and failed attempts are charged again',
  async (version) => {
    await using server = await RedisServer.start()
    const rate = { limit: 5, period: 1_000, burst: 5 }
    const jobs = [
      { group: 'a', count: 20 },
      { group: 'b', count: 3, fails: 2 },
    ]
    const worker = startWorker({ version, url: server.url, jobs, limits: { rate: { make: 'gcra', ...rate } } })
    await has([worker], 23, 'completed')
    await worker.end('SIGTERM')
    const completed = linesOf([worker], 'completed')
    expect(new Set(completed.map((line) => line.completed)).size).toBe(23)
    // BullMQ counts the attempt that completes a job.
    expect(completed.map(({ attemptsMade }) => attemptsMade).sort()).toEqual([...Array(20).fill(1), 3, 3, 3])
    expect(linesOf([worker], 'begun')).toHaveLength(20 + 3 * 3)
    expect(linesOf([worker], 'failed').map(({ message }) => message)).toEqual(Array(6).fill('not sent'))
    const picks = linesOf([worker], 'begun')
      .filter(({ group }) => group === 'a')
      .map((line) => line.picks as number)
    expect(Math.max(...picks)).toBeGreaterThan(1)
  },
)

test('jobs of a killed worker run again, are charged once, and leave their permits', async () => {
  await using server = await RedisServer.start()
  const limits = {
    daily: { make: 'fixedWindow', limit: 40, window: 86_400_000 },
    atOnce: { make: 'concurrency', limit: 3, ttl: 2_000 },
  }
  const jobs = [
    { group: 'a', count: 60 },
    { group: 'b', count: 20 },
  ]
  const victim = startWorker({ url: server.url, jobs, limits, isVictim: true })
  await has([victim], 3, 'begun')
  const others = [1, 2].map(() => startWorker({ url: server.url, limits, jobMs: 5 }))
  // The others run the jobs of the other group, while the victim has all permits of its own.
  await has(others, 10, 'completed')
  await victim.end('SIGKILL')
  const killed = linesOf([victim], 'begun').map(({ begun }) => begun)
  await has(others, 60, 'completed')
  await Promise.all(others.map((worker) => worker.end('SIGTERM')))

  const completed = linesOf(others, 'completed').map((line) => line.completed)
  expect(new Set(completed).size).toBe(60)
  expect(completed).toHaveLength(60)
  expect(completed.filter((id) => id?.startsWith('a'))).toHaveLength(40)
  expect(completed).toEqual(expect.arrayContaining(killed))
  // Only the jobs of the victim began twice.
  expect(linesOf([victim, ...others], 'begun')).toHaveLength(60 + killed.length)
  // The jobs that do not fit today wait.
  expect(await server.command('ZCARD', 'bull:mail:delayed')).toBe(20)

  await using store = new RedisStore({ url: server.url, commandTimeout: PATIENT_MS })
  const policies = {
    daily: fixedWindow({ limit: 40, window: '1d' }),
    atOnce: concurrency({ limit: 3, ttl: '2s' }),
  }
  const limiter = new RateLimiter(policies, { store, prefix: 'jobs' })
  for (const [group, used] of [
    ['a', 40],
    ['b', 20],
  ] as const) {
    const { policies } = await limiter.peek(group, 0)
    expect([policies.daily.used, policies.atOnce.used]).toEqual([used, 0])
  }
  await limiter.close()
})

test('several workers run no more jobs of a group at once than the group has permits', async () => {
  await using server = await RedisServer.start()
  // No permit expires, not even on a machine that stands still for minutes.
  const limits = { atOnce: { make: 'concurrency', limit: 3, ttl: 3_600_000 } }
  const jobs = [
    { group: 'a', count: 60 },
    { group: 'b', count: 20 },
  ]
  const workers = [{ jobs }, {}].map((more) => startWorker({ url: server.url, limits, jobMs: 5, ...more }))
  await has(workers, 80, 'completed')
  await Promise.all(workers.map((worker) => worker.end('SIGTERM')))
  // A job prints its beginning after its permit was granted, and its end before the permit is released. So the order
  // of these lines is certain, however slow the machine is.
  expect(mostAtOnce(workers, 'a')).toBeLessThanOrEqual(3)
  expect(mostAtOnce(workers, 'b')).toBeLessThanOrEqual(3)
})

test('a group with many jobs is picked in turns, and leaves the workers to the others', async () => {
  await using server = await RedisServer.start()
  const limits = { rate: { make: 'gcra', limit: 100, period: 1_000, burst: 10 } }
  const small = Array.from({ length: 19 }, (_, index) => ({ group: `small ${index}`, count: 10 }))
  const jobs = [{ group: 'large', count: 400 }, ...small]
  const workers = [startWorker({ url: server.url, jobs, limits }), startWorker({ url: server.url, limits })]
  await has(workers, 590, 'completed')
  await Promise.all(workers.map((worker) => worker.end('SIGTERM')))
  const picksOf = (isLarge: boolean) =>
    linesOf(workers, 'begun')
      .filter(({ group }) => (group === 'large') === isLarge)
      .map(({ picks }) => picks as number)
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
  // Jobs that fit are never delayed.
  expect(picksOf(false)).toEqual(Array(190).fill(1))
  // About one pick, and one for each process; without turns hundreds. This counts picks and measures no time, but a busy
  // machine picks some jobs again: bullmq/turns.test.ts has the exact bound, in virtual time.
  expect(sum(picksOf(true)) / 400).toBeLessThan(50)
})
