/** Several processes with wrong clocks share one limit, and only Redis's clock decides. */
import { RedisServer } from '../../servers/redis-server.js'
import { allReady, reportOf, skewed } from '../help.js'
import { HOT } from '../hot-policies.js'
import { type Admitted, atRate, inAnySpan, inEachGridWindow, inEachOpenedWindow, inIntervals } from '../laws.js'

const SKEWS_MS = [-7_000, -900, 1_700, 60_000]
const IN_FLIGHT = 64
const MS = 5_000

/** The report of a process of `hot-keys.mjs`. */
interface HotKeysReport {
  /** By policy and key: microseconds by the deciding clock, and costs. */
  readonly admitted: readonly Readonly<Record<string, readonly (readonly [number, number])[]>>[]
  /** By policy: the milliseconds in which a call on the steady key was decided. */
  readonly decided: readonly (readonly number[])[]
  readonly failures: readonly unknown[]
  /** The process's time minus its time at the start of the test. */
  readonly skew: number
}

let reports: readonly HotKeysReport[]
/** The time by this machine's clock before and after. */
let [before, after] = [0, 0]

/** All processes' calls on one key under one policy. */
function merged(which: number, key: string): Admitted[] {
  const calls = reports.flatMap(({ admitted }) => admitted[which]?.[key] ?? [])
  return calls.map(([at, cost]) => ({ at, cost })).sort((a, b) => a.at - b.at)
}

describe('four processes with 64 calls in flight under each policy, all at once', () => {
  beforeAll(async () => {
    const server = await RedisServer.start()
    try {
      const policies = HOT.map(({ name, policy }) => ({ name, policy }))
      const work = { url: server.url, policies, inFlight: IN_FLIGHT, ms: MS }
      const children = await allReady(SKEWS_MS.map((skew) => skewed('hot-keys.mjs', work, skew)))
      before = Date.now() * 1_000
      reports = await Promise.all(children.map((child) => reportOf<HotKeysReport>(child)))
      after = (Date.now() + 1) * 1_000
    } finally {
      await server.stop()
    }
  }, 30_000)

  test('no call failed, and the clocks were wrong', () => {
    expect(reports.flatMap(({ failures }) => failures)).toEqual([])
    reports.forEach(({ skew }, index) => {
      // The delay of the message does not matter.
      expect(Math.abs(skew - (SKEWS_MS[index] as number))).toBeLessThan(500)
    })
  })

  describe.each(HOT.map((hot, which) => ({ ...hot, which })))('$name', ({ laws, perSecond, which }) => {
    test.each(['steady', 'weighted', 'bursts'])('keeps its laws for %s', (key) => {
      const trace = merged(which, key)
      expect(trace[0]?.at).toBeGreaterThanOrEqual(before)
      expect(trace.at(-1)?.at).toBeLessThanOrEqual(after)
      for (const law of laws) {
        expect(law(trace)).toBeUndefined()
      }
    })

    test('gives callers that never stop nearly all promised units', () => {
      // On a busy machine they do stop, and units due in the meantime may be lost.
      const millis = new Set(reports.flatMap(({ decided }) => decided[which] ?? []))
      // A truncated trace would satisfy any promise.
      expect(millis.size).toBeGreaterThan(MS / 4)
      expect(merged(which, 'steady').length).toBeGreaterThanOrEqual((0.98 * perSecond * millis.size) / 1_000)
    })
  })
})

/** A check that cannot fail proves nothing. */
test('the laws detect one excess unit, and no excess in a correct trace', () => {
  const trace = (...millis: readonly number[]) => millis.map((at) => ({ at: at * 1_000, cost: 1 }))
  expect(inAnySpan(2, 10)(trace(0, 1, 10, 11, 20))).toBeUndefined()
  expect(inAnySpan(2, 10)(trace(0, 1, 9.999))).toMatch('3 of 2 units')
  expect(inAnySpan(2, 10)([{ at: 0, cost: 3 }])).toMatch('3 of 2 units')
  expect(atRate(2, 1, 10)(trace(0, 0, 10, 25, 30))).toBeUndefined()
  expect(atRate(2, 1, 10)(trace(50, 50, 59.999))).toMatch('0.0001 units above')
  expect(inIntervals(2, 1, 10)(trace(5, 5, 5, 15))).toBeUndefined()
  expect(inIntervals(2, 1, 10)(trace(5, 5, 5, 14.999))).toMatch('4 of 3 units')
  expect(inEachGridWindow(2, 10)(trace(8, 9, 10, 11))).toBeUndefined()
  expect(inEachGridWindow(2, 10)(trace(1, 8, 9.999))).toMatch('3 of 2 units')
  expect(inEachOpenedWindow(2, 10)(trace(5, 14, 15, 24, 25))).toBeUndefined()
  expect(inEachOpenedWindow(2, 10)(trace(5.5, 14, 15.999))).toMatch('3 of 2 units')
})
