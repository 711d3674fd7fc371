/** Four processes, each with a quarter of the numbers, during ten seconds without Redis. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { calendarWindow, fixedWindow, gcra, type Policy, slidingLog, tokenBucket } from '../../ts/index.js'
import { killAll, LATE_MS, reportOf, skewed } from '../redis/help.js'
import { type Admitted, atRate, inAnySpan, inEachGridWindow, inEachOpenedWindow, type Law } from '../redis/laws.js'
import { RedisServer } from '../servers/redis-server.js'

const PROCESSES = 4
const SHARE = 0.25
const TIMEOUT_MS = 150
const [BEFORE_MS, AWAY_MS, AFTER_MS] = [2_000, 10_000, 4_000]
/**
 * In each process and for each policy: even the calls that wait for their deadline exceed the
 * limit.
 */
const IN_FLIGHT = 8
/** The pause between calls: the test does not measure speed. */
const PAUSE_MS = 40

/** A policy whose numbers are multiples of four, and the units that it and its share admit. */
interface Case {
  readonly name: string
  readonly policy: Policy
  /**
   * The law of the store, and of a share of the numbers in one process: the numbers times `part`.
   */
  law(part: number): Law
  /** The sum of several such laws, in any window. */
  together(parts: number): Law
  /** The units a second that callers who never stop get under the policy. */
  readonly perSecond: number
}

const CASES: readonly Case[] = [
  {
    name: 'gcra',
    policy: gcra({ limit: 40, period: '1s', burst: 20 }),
    law: (part) => atRate(20 * part, 40 * part, 1_000),
    together: (parts) => atRate(20 * parts, 40 * parts, 1_000),
    perSecond: 40,
  },
  {
    // One for each process in 100 ms.
    name: 'tokenBucket',
    policy: tokenBucket({ capacity: 12, refill: { tokens: 1, every: 25 } }),
    law: (part) => atRate(12 * part, part, 25),
    together: (parts) => atRate(12 * parts, parts, 25),
    perSecond: 40,
  },
  {
    name: 'slidingLog',
    policy: slidingLog({ limit: 40, window: '1s' }),
    law: (part) => inAnySpan(40 * part, 1_000),
    together: (parts) => inAnySpan(40 * parts, 1_000),
    perSecond: 40,
  },
  {
    name: 'fixedWindow',
    policy: fixedWindow({ limit: 40, window: '1s' }),
    law: (part) => inEachOpenedWindow(40 * part, 1_000),
    together: (parts) => inAnySpan(2 * 40 * parts - 1, 1_000),
    perSecond: 40,
  },
  {
    name: 'calendarWindow',
    policy: calendarWindow({ limit: 40, every: '1s' }),
    law: (part) => inEachGridWindow(40 * part, 1_000),
    together: (parts) => inEachGridWindow(40 * parts, 1_000),
    perSecond: 40,
  },
]

/** An admitted call: its microsecond, cost and source. */
type Call = readonly [at: number, cost: number, source: 'store' | 'fallback']

/** The report of a process of `outage.mjs`. */
interface ProcessReport {
  /** By policy. */
  readonly admitted: readonly (readonly Call[])[]
  /** The longest call and the longest stall of the process, in milliseconds. */
  readonly slowest: number
  readonly longestStall: number
}

/** The reports of the four, and the microseconds at which the outage began and ended. */
interface Outage {
  readonly reports: readonly ProcessReport[]
  readonly away: number
  readonly back: number
}

/** Lets four processes call while Redis goes away and comes back. */
async function outage(leave: (server: RedisServer) => unknown, comeBack: (server: RedisServer) => unknown) {
  const server = await RedisServer.start()
  const policies = CASES.map(({ name, policy }) => ({ name, policy }))
  const work = { url: server.url, policies, share: SHARE, ms: BEFORE_MS + AWAY_MS + AFTER_MS }
  const pace = { inFlight: IN_FLIGHT, pauseMs: PAUSE_MS, commandTimeout: TIMEOUT_MS }
  const begun = Array.from({ length: PROCESSES }, () => skewed(join(__dirname, 'outage.mjs'), { ...work, ...pace }, 0))
  try {
    const children = await Promise.all(begun)
    const reported = Promise.all(children.map((child) => reportOf<ProcessReport>(child)))
    // It is awaited later: a failure until then is not an unhandled rejection.
    reported.catch(() => {})
    await sleep(BEFORE_MS)
    const away = Date.now() * 1_000
    await leave(server)
    await sleep(AWAY_MS)
    await comeBack(server)
    const back = Date.now() * 1_000
    return { reports: await reported, away, back }
  } finally {
    // If one has failed, the others would wait for a message, and the tests for their exit.
    await killAll(begun)
    server.thaw()
    await server.stop()
  }
}

function traceOf(calls: readonly Call[]): Admitted[] {
  return calls.map(([at, cost]) => ({ at, cost })).sort((one, other) => one.at - other.at)
}

function unitsOf(calls: readonly Call[]): number {
  return calls.reduce((sum, [, cost]) => sum + cost, 0)
}

/** Both outages run at once: the machine has time for them. */
let outages: readonly Outage[]

beforeAll(async () => {
  outages = await Promise.all([
    outage(
      (server) => server.freeze(),
      (server) => server.thaw(),
    ),
    outage(
      (server) => server.kill(),
      (server) => server.begin(),
    ),
  ])
})

describe.each([
  ['frozen and thawed, with all its state', 0, 1],
  ['killed and restarted empty: the store starts over', 1, 2],
] as const)('Redis is %s', (_name, which, lives) => {
  const outage = () => outages[which] as Outage
  const callsOf = (policy: number, source?: Call[2]) => {
    const calls = outage().reports.flatMap(({ admitted }) => admitted[policy] ?? [])
    return source === undefined ? calls : calls.filter((call) => call[2] === source)
  }

  test('no call failed, and each resolved by its deadline', () => {
    for (const { slowest, longestStall } of outage().reports) {
      expect(slowest).toBeLessThan(TIMEOUT_MS + LATE_MS + 2 * longestStall)
    }
  })

  describe.each(CASES.map((each, policy) => ({ ...each, policy })))('$name', ({ policy, law, together, perSecond }) => {
    test('the store keeps its law, before and after the outage', () => {
      const calls = callsOf(policy, 'store')
      const middle = (outage().away + outage().back) / 2
      const spans = lives === 1 ? [calls] : [calls.filter(([at]) => at < middle), calls.filter(([at]) => at >= middle)]
      for (const span of spans) {
        expect(law(1)(traceOf(span))).toBeUndefined()
      }
    })

    test('each process keeps the law of its share', () => {
      for (const { admitted } of outage().reports) {
        const calls = (admitted[policy] ?? []).filter(([, , source]) => source === 'fallback')
        expect(law(SHARE)(traceOf(calls))).toBeUndefined()
      }
    })

    // promise: shares-in-an-outage
    test('in every window all sources together admit no more than the sum of their laws', () => {
      expect(together(lives + PROCESSES * SHARE)(traceOf(callsOf(policy)))).toBeUndefined()
    })

    test('during the outage the shares admit about as much as the store would, and afterwards the store decides again', () => {
      const { away, back } = outage()
      const [instead, store] = [callsOf(policy, 'fallback'), callsOf(policy, 'store')]
      const during = instead.filter(([at]) => at >= away + 1_000_000 && at < back)
      const promised = (perSecond * (AWAY_MS - 1_000)) / 1_000
      // A two-unit call with room for one waits for a whole window, and a busy machine calls less
      // often.
      expect(unitsOf(during)).toBeGreaterThan(0.2 * promised)
      expect(store.filter(([at]) => at < away).length).toBeGreaterThan(0)
      expect(store.filter(([at]) => at > back + 1_000_000).length).toBeGreaterThan(0)
      // On a busy machine a call may still miss its deadline.
      const late = (calls: readonly Call[]) => unitsOf(calls.filter(([at]) => at > back + 1_500_000))
      expect(late(instead)).toBeLessThan(late(store) / 2)
    })
  })
})
