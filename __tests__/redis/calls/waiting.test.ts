/** Many processes whose clocks are wrong wait for slots on one key: Redis gives them, and nobody starts early. */
import { gcra } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { allReady, skewed, told } from '../help.js'

const PROCESSES = 8
const WAITERS = 50
const SKEWS_MS = [-60_000, -7_000, -900, 0, 1, 1_700, 7_000, 60_000]

/** One slot every 5 ms. */
const PACER = gcra({ limit: 200, period: '1s', burst: 1 })
const APART = 5_000

/** A process's clock and Redis's are read apart. */
const READ_APART = 1_000

/** So late nearly all calls start at most, beside what the processes themselves are late by. */
const LATE_MS = 15

/** How a call waits. */
interface Waiting {
  readonly maxWaitMs?: number
  readonly abortAfterMs?: number
}

/** What a process of `waiting.mjs` tells. Times are in microseconds, by Redis's clock and by the machine's. */
interface Told {
  readonly started: readonly {
    /** The number of the call in its process. */
    readonly number: number
    readonly at: number
    readonly waited: number
    readonly start: number
  }[]
  readonly refused: number
  readonly aborted: number
  /**
   * The longest delay of the process's event loop, in milliseconds. One answer tells all of the process's slots, so
   * what delays that delays all of them.
   */
  readonly loopMs: number
  readonly skew: number
}

type Started = Told['started'][number]

const slotOf = ({ at, waited }: Started) => at + waited

function percentile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * share) - 1] as number
}

/** All processes at once, each with these calls. */
async function waited(calls: readonly Waiting[]): Promise<readonly Told[]> {
  const server = await RedisServer.start()
  try {
    const work = { url: server.url, policy: PACER, prefix: 'pacer', waiters: calls }
    const children = await allReady(SKEWS_MS.map((skew) => skewed('waiting.mjs', work, skew)))
    return await Promise.all(children.map((child) => told<Told>(child)))
  } finally {
    await server.stop()
  }
}

describe(`${PROCESSES} processes with ${WAITERS} calls each that wait at once`, () => {
  let reports: readonly Told[]
  let all: readonly Started[]
  beforeAll(async () => {
    reports = await waited(new Array(WAITERS).fill({}))
    all = reports.flatMap(({ started }) => started)
  }, 30_000)

  test('all start, and the clocks were wrong indeed', () => {
    expect(all).toHaveLength(PROCESSES * WAITERS)
    reports.forEach(({ skew }, index) => {
      expect(Math.abs(skew - (SKEWS_MS[index] as number))).toBeLessThan(500)
    })
  })

  test('the slots follow each other exactly, none is lost and none is given twice', () => {
    const slots = all.map(slotOf).sort((a, b) => a - b)
    expect(slots).toEqual(slots.map((_, index) => (slots[0] as number) + index * APART))
  })

  test('the slots are given in the order in which they were booked', () => {
    for (const { started } of reports) {
      const slots = [...started].sort((a, b) => a.number - b.number).map(slotOf)
      expect(slots).toEqual([...slots].sort((a, b) => a - b))
    }
    const bySlot = [...all].sort((a, b) => slotOf(a) - slotOf(b)).map(({ at }) => at)
    expect(bySlot).toEqual([...bySlot].sort((a, b) => a - b))
  })

  test('nobody starts early, and nearly all in time', () => {
    const lateOf = (one: Started) => (one.start - slotOf(one)) / 1_000
    const late = all.map(lateOf)
    expect(Math.min(...late)).toBeGreaterThan(-READ_APART / 1_000)
    const net = reports.flatMap(({ started, loopMs }) => started.map((one) => lateOf(one) - loopMs))
    const [p50, p99, netP99] = [percentile(late, 0.5), percentile(late, 0.99), percentile(net, 0.99)]
    const loops = reports.map(({ loopMs }) => loopMs.toFixed(1)).join(', ')
    const text = `p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}; net of the event loops' delays (${loops}) ${netP99.toFixed(1)}`
    process.stdout.write(`start after slot, in ms: ${text}\n`)
    expect(netP99).toBeLessThanOrEqual(LATE_MS)
  })
})

describe('calls that do not wait for long, or leave early', () => {
  let reports: readonly Told[]
  let slots: readonly number[]
  beforeAll(async () => {
    const patient = Array.from({ length: 20 }, (): Waiting => ({}))
    const hasty = Array.from({ length: 15 }, (): Waiting => ({ maxWaitMs: 100 }))
    const leaving = Array.from({ length: 15 }, (_, index): Waiting => ({ abortAfterMs: 30 + index * 10 }))
    // By turns, so that those who leave have others behind them, or nobody at the end.
    const calls = patient.flatMap((one, index) => [one, hasty[index] ?? {}, leaving[index] ?? {}])
    reports = await waited([...calls, { abortAfterMs: 40 }])
    slots = reports.flatMap(({ started }) => started.map(slotOf)).sort((a, b) => a - b)
  }, 30_000)

  test('there are such calls, and all others start', () => {
    const sum = (of: (told: Told) => number) => reports.map(of).reduce((a, b) => a + b)
    const [refused, aborted] = [sum((told) => told.refused), sum((told) => told.aborted)]
    expect(refused).toBeGreaterThan(0)
    expect(aborted).toBeGreaterThan(0)
    expect(slots.length + refused + aborted).toBe(PROCESSES * 61)
    expect(slots.length).toBeGreaterThanOrEqual(PROCESSES * 30)
  })

  test('the schedule keeps its steps, and what is lost is what was left with others behind it', () => {
    const first = slots[0] as number
    const steps = slots.map((slot) => (slot - first) / APART)
    expect(steps).toEqual(steps.map(Math.round))
    expect(new Set(steps).size).toBe(steps.length)
    const aborted = reports.map((report) => report.aborted).reduce((a, b) => a + b)
    expect(steps.at(-1)).toBeLessThan(slots.length + aborted)
  })

  test('nobody starts early', () => {
    const early = reports.flatMap(({ started }) => started).filter((one) => one.start < slotOf(one) - READ_APART)
    expect(early).toEqual([])
  })
})
