/**
 * Several processes with wrong clocks wait for slots on one key: Redis assigns them, and no call
 * starts early.
 */
import { gcra } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { allReady, reportOf, skewed } from '../help.js'

const PROCESSES = 8
const WAITERS = 50
const SKEWS_MS = [-60_000, -7_000, -900, 0, 1, 1_700, 7_000, 60_000]

/** One slot every 5 ms. */
const PACER = gcra({ limit: 200, period: '1s', burst: 1 })
const APART = 5_000

/** The tolerance between readings of a process's clock and Redis's. */
const READ_APART = 1_000

/**
 * The maximum lateness of nearly all starts, apart from the processes' own delays. On a quiet machine
 * they are 2 ms late; a wrong clock makes them up to a minute late.
 */
const LATE_MS = 5_000

/** The options of a waiting call. */
interface WaitingCall {
  readonly maxWait?: number
  readonly abortAfterMs?: number
}

/**
 * The report of a process of `waiting.mjs`. Times are in microseconds, by Redis's clock and by the
 * machine's.
 */
interface WaitingReport {
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
   * The longest delay of the process's event loop, in milliseconds. One reply contains all slots of
   * the process, so a delay of the reply delays them all.
   */
  readonly loopMs: number
  readonly skew: number
}

type StartedCall = WaitingReport['started'][number]

const slotOf = ({ at, waited }: StartedCall) => at + waited

/**
 * The number of slots that no started call has, between those that calls have. A call without a wait begins a new
 * schedule: on a slow machine all earlier slots may have passed by then.
 */
function lostSlots(calls: readonly StartedCall[]): number {
  const inOrder = [...calls].sort((a, b) => slotOf(a) - slotOf(b))
  return inOrder.slice(1).reduce((lost, call, index) => {
    const apart = slotOf(call) - slotOf(inOrder[index] as StartedCall)
    if (call.waited === 0 && apart > APART) {
      return lost
    }
    // Two calls with the same slot, or slots between the steps of the schedule.
    expect(apart).toBeGreaterThan(0)
    expect(apart % APART).toBe(0)
    return lost + apart / APART - 1
  }, 0)
}

function percentile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * share) - 1] as number
}

/** All processes at once, each with these calls. */
async function waited(calls: readonly WaitingCall[]): Promise<readonly WaitingReport[]> {
  const server = await RedisServer.start()
  try {
    const work = { url: server.url, policy: PACER, prefix: 'pacer', waiters: calls }
    const children = await allReady(SKEWS_MS.map((skew) => skewed('waiting.mjs', work, skew)))
    return await Promise.all(children.map((child) => reportOf<WaitingReport>(child)))
  } finally {
    await server.stop()
  }
}

describe(`${PROCESSES} processes with ${WAITERS} calls each that wait at once`, () => {
  let reports: readonly WaitingReport[]
  let all: readonly StartedCall[]
  beforeAll(async () => {
    reports = await waited(new Array(WAITERS).fill({}))
    all = reports.flatMap(({ started }) => started)
  })

  test('all start, and the clocks were wrong', () => {
    expect(all).toHaveLength(PROCESSES * WAITERS)
    reports.forEach(({ skew }, index) => {
      expect(Math.abs(skew - (SKEWS_MS[index] as number))).toBeLessThan(500)
    })
  })

  test('the slots are contiguous: none is lost and none is assigned twice', () => {
    expect(lostSlots(all)).toBe(0)
  })

  // promise: order-of-slots
  test('the slots are given in the order in which they were scheduled', () => {
    for (const { started } of reports) {
      const slots = [...started].sort((a, b) => a.number - b.number).map(slotOf)
      expect(slots).toEqual([...slots].sort((a, b) => a - b))
    }
    const bySlot = [...all].sort((a, b) => slotOf(a) - slotOf(b)).map(({ at }) => at)
    expect(bySlot).toEqual([...bySlot].sort((a, b) => a - b))
  })

  // promise: deadline-of-wait
  test('no call starts early, and nearly all start in time', () => {
    const lateOf = (one: StartedCall) => (one.start - slotOf(one)) / 1_000
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

describe('calls with a short maximum wait, and aborted calls', () => {
  let reports: readonly WaitingReport[]
  let all: readonly StartedCall[]
  beforeAll(async () => {
    const patient = Array.from({ length: 20 }, (): WaitingCall => ({}))
    const hasty = Array.from({ length: 15 }, (): WaitingCall => ({ maxWait: 100 }))
    const aborting = Array.from({ length: 15 }, (_, index): WaitingCall => ({ abortAfterMs: 30 + index * 10 }))
    // Alternating, so that aborted calls have others after them, or none at the end.
    const calls = patient.flatMap((one, index) => [one, hasty[index] ?? {}, aborting[index] ?? {}])
    reports = await waited([...calls, { abortAfterMs: 40 }])
    all = reports.flatMap(({ started }) => started)
  })

  test('some calls are refused, some are aborted, and all others start', () => {
    const sum = (of: (report: WaitingReport) => number) => reports.map(of).reduce((a, b) => a + b)
    const [refused, aborted] = [sum((report) => report.refused), sum((report) => report.aborted)]
    expect(refused).toBeGreaterThan(0)
    expect(aborted).toBeGreaterThan(0)
    expect(all.length + refused + aborted).toBe(PROCESSES * 61)
    expect(all.length).toBeGreaterThanOrEqual(PROCESSES * 30)
  })

  test('the schedule keeps its steps, and only slots with later calls after them are lost', () => {
    const aborted = reports.map((report) => report.aborted).reduce((a, b) => a + b)
    expect(lostSlots(all)).toBeLessThanOrEqual(aborted)
  })

  test('no call starts early', () => {
    const early = all.filter((one) => one.start < slotOf(one) - READ_APART)
    expect(early).toEqual([])
  })
})
