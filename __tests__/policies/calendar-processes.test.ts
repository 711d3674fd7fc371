/**
 * Two processes with different time zone data share one limit, and neither resets the other's
 * windows.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type CalendarWindowOptions, calendarWindow, MemoryStore, RateLimiter, RedisStore } from '../../ts/index.js'
import { RedisServer } from '../servers/redis-server.js'

interface TakenUnit {
  readonly status: string
  readonly at: number
  readonly end: number
}

/** The first time of the server's clock, which stands still until a test sets it. */
const START_MS = Date.UTC(2026, 5, 1, 12)

let server: RedisServer
let folder: string

beforeAll(async () => {
  server = await RedisServer.start({ timeUs: START_MS * 1_000 })
  folder = await mkdtemp(join(tmpdir(), 'tollgate-zones-'))
  await mkdir(join(folder, 'Europe'))
})

afterAll(async () => {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Time zone data (RFC 9636) of a zone without history, defined by one rule. */
function zoneFile(rule: string): Buffer {
  const block = (version: string) => {
    const head = Buffer.alloc(44)
    head.write(`TZif${version}`, 'latin1')
    head.writeUInt32BE(1, 36) // one type of local time
    head.writeUInt32BE(4, 40) // one name of four bytes
    return Buffer.concat([head, Buffer.alloc(6), Buffer.from('ZZZ\0')])
  }
  return Buffer.concat([block('2'), block('2'), Buffer.from(`\n${rule}\n`)])
}

/** Starts a process. Altered data go into a separate folder. */
async function start(prefix: string, options: CalendarWindowOptions, isAltered: boolean): Promise<ChildProcess> {
  const work = JSON.stringify({ url: server.url, prefix, options })
  const { TZDIR: _, ...env } = process.env
  const child = fork(join(__dirname, 'calendar-child.mjs'), [work], {
    env: isAltered ? { ...env, TZDIR: folder } : env,
  })
  expect(await nextMessage(child)).toBe('ready')
  return child
}

async function nextMessage(child: ChildProcess): Promise<unknown> {
  const controller = new AbortController()
  const { signal } = controller
  const ended = once(child, 'exit', { signal }).then(([code]) => {
    throw new Error(`the process ended with ${code}`)
  })
  const answered = once(child, 'message', { signal }).then(([message]) => message)
  try {
    return await Promise.race([answered, ended])
  } finally {
    controller.abort()
    // The other one rejects.
    await Promise.allSettled([answered, ended])
  }
}

async function send(child: ChildProcess, question: object): Promise<TakenUnit[]> {
  child.send(question)
  return (await nextMessage(child)) as TakenUnit[]
}

async function stop(...children: readonly ChildProcess[]): Promise<void> {
  for (const child of children) {
    child.send({})
    await once(child, 'exit')
  }
}

/** The units of each window, in opening order. */
function windowsOf(trace: readonly TakenUnit[]): { end: number; count: number }[] {
  const windows: { end: number; count: number }[] = []
  for (const { at, end: reported } of trace.toSorted((a, b) => a.at - b.at)) {
    const end = Math.round(reported / 1_000) * 1_000
    let window = windows.at(-1)
    if (window?.end !== end) {
      expect(at).toBeGreaterThanOrEqual(window?.end ?? 0)
      window = { end, count: 0 }
      windows.push(window)
    }
    window.count++
  }
  return windows
}

test("both keep to a window's end and one count, whichever process opened it", async () => {
  // In the altered data Berlin has the time of Kathmandu.
  await writeFile(join(folder, 'Europe', 'Berlin'), zoneFile('<+0545>-5:45'))
  const options = { limit: 5, every: 'day', timeZone: 'Europe/Berlin' } as const
  using system = await start('days', options, false)
  using altered = await start('days', options, true)
  const ends = new Set<number>()
  for (const [opens, joins] of [
    [system, altered],
    [altered, system],
  ] as const) {
    const key = `opened by ${opens.pid}`
    const first = await send(opens, { key, times: 3 })
    const then = await send(joins, { key, times: 3 })
    const last = await send(opens, { key, times: 1 })
    const statuses = [first, then, last].map((taken) => taken.map(({ status }) => status))
    expect(statuses).toEqual([['allowed', 'allowed', 'allowed'], ['allowed', 'allowed-last', 'refused'], ['refused']])
    const seconds = [...first, ...then, ...last].map(({ end }) => Math.round(end / 1_000))
    expect(new Set(seconds).size).toBe(1)
    ends.add(seconds[0] as number)
  }
  // Each process opened windows of its own calendar.
  expect(ends.size).toBe(2)
  await stop(system, altered)
})

test('windows opened alternately do not overlap, and each admits the limit', async () => {
  // In the altered data clocks are a second ahead of UTC: windows of two seconds end at odd
  // seconds.
  await writeFile(join(folder, 'Europe', 'Berlin'), zoneFile('<+000001>-0:00:01'))
  const limit = 50
  const options = { limit, every: '2s', timeZone: 'Europe/Berlin' } as const
  using system = await start('seconds', options, false)
  using altered = await start('seconds', options, true)
  let now = START_MS
  /** The units that processes take in turns, each more than a window admits, during a number of seconds. */
  const take = async (seconds: number, processes: (step: number) => readonly ChildProcess[]) => {
    const taken: TakenUnit[] = []
    for (let step = 0; step < 4 * seconds; step++) {
      now += 250
      server.setTime(now * 1_000)
      for (const child of processes(step)) {
        taken.push(...(await send(child, { key: 'hot', times: limit + 10 })))
      }
    }
    return taken.filter(({ status }) => status !== 'refused')
  }
  const together = await take(10, (step) => (step % 7 < 3 ? [system, altered] : [altered, system]))
  const alone = [await take(3, () => [system]), await take(3, () => [altered])]
  const windows = windowsOf([together, ...alone].flat())
  expect(windows.map(({ count }) => count)).toEqual(windows.map(() => limit))
  // Each of them lasts for one or two seconds.
  expect(windows.length).toBeGreaterThanOrEqual(8)
  const parity = (trace: readonly TakenUnit[]) => windowsOf(trace).map(({ end }) => (end / 1_000) % 2)
  expect(new Set(parity(together))).toEqual(new Set([0, 1]))
  expect(alone.map((trace) => parity(trace).at(-1))).toEqual([0, 1])
  await stop(system, altered)
  server.setTime(START_MS * 1_000)
})

test('over Redis a limiter has the same results as the embedded one', async () => {
  const store = new RedisStore({ url: server.url, commandTimeout: 30_000 })
  for (const every of ['hour', 'day', 'week', 'month', '12h'] as const) {
    const policy = calendarWindow({ limit: 3, every, timeZone: 'Europe/Berlin' })
    const limiter = new RateLimiter(policy, { store, prefix: `calendar-${every}` })
    const embedded = new RateLimiter(policy, { store: new MemoryStore({ clock: () => START_MS }) })
    await limiter.ready()
    for (const [cost, status] of [
      [2, 'allowed'],
      [2, 'refused'],
      [4, 'impossible'],
      [1, 'allowed-last'],
    ] as const) {
      const [here, there] = [embedded.takeSync('a', cost), await limiter.take('a', cost)]
      expect([here.status, there.status]).toEqual([status, status])
      const { source: _, ...numbers } = here
      expect(there).toMatchObject(numbers)
    }
    expect(await limiter.peek('a')).toMatchObject({ status: 'refused', remaining: 0, limit: 3 })
    await limiter.reset('a')
    const { resetAfterMs } = await embedded.peek('unused')
    expect(await limiter.peek('a')).toMatchObject({ status: 'allowed', remaining: 3, resetAfterMs })
    const many = await limiter.takeMany(['a', 'b', 'a', 'a', 'a'])
    expect(many.map(({ remaining }) => remaining)).toEqual([2, 2, 1, 0, 0])
    await limiter.close()
  }
  await store.close()
})
