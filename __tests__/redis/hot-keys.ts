import { SEED } from '../cases.js'
import { RedisServer } from '../servers/redis-server.js'
import { allReady, reportOf, skewed } from './help.js'
import { HOT } from './hot-policies.js'
import type { Admitted } from './laws.js'

const SKEWS_MS = [-7_000, -900, 1_700, 60_000]
const IN_FLIGHT = 64

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

/**
 * Tests with processes that take units of hot keys for a time in milliseconds. Redis's clock decides.
 *
 * @param isPromiseJudged - Also compare the units with those promised to callers that never stop.
 */
export function describeHotKeys(ms: number, isPromiseJudged = false): void {
  let reports: readonly HotKeysReport[]
  /** The time by this machine's clock before and after. */
  let [before, after] = [0, 0]

  /** All processes' calls on one key under one policy. */
  const merged = (which: number, key: string): Admitted[] => {
    const calls = reports.flatMap(({ admitted }) => admitted[which]?.[key] ?? [])
    return calls.map(([at, cost]) => ({ at, cost })).sort((a, b) => a.at - b.at)
  }

  describe('four processes with 64 calls in flight under each policy, all at once', () => {
    beforeAll(async () => {
      const server = await RedisServer.start()
      try {
        const policies = HOT.map(({ name, policy }) => ({ name, policy }))
        const work = { url: server.url, policies, inFlight: IN_FLIGHT, ms }
        const children = await allReady(
          SKEWS_MS.map((skew, index) => skewed('hot-keys.mjs', { ...work, seed: SEED + index }, skew)),
        )
        before = Date.now() * 1_000
        reports = await Promise.all(children.map((child) => reportOf<HotKeysReport>(child)))
        after = (Date.now() + 1) * 1_000
      } finally {
        await server.stop()
      }
    }, 60_000)

    test('no call failed, and the clocks were wrong', () => {
      expect(reports.flatMap(({ failures }) => failures)).toEqual([])
      reports.forEach(({ skew }, index) => {
        expect(Math.abs(skew - (SKEWS_MS[index] as number))).toBeLessThan(500)
      })
    })

    describe.each(HOT.map((hot, which) => ({ ...hot, which })))('$name', ({ laws, perSecond, which }) => {
      // promise: client-clocks
      test.each(['steady', 'weighted', 'bursts'])('keeps its laws for %s', (key) => {
        const trace = merged(which, key)
        expect(trace[0]?.at).toBeGreaterThanOrEqual(before)
        expect(trace.at(-1)?.at).toBeLessThanOrEqual(after)
        for (const law of laws) {
          expect(law(trace)).toBeUndefined()
        }
      })

      // On a busy machine callers do stop, and units due in the meantime may be lost.
      if (isPromiseJudged) {
        test('gives callers that never stop nearly all promised units', () => {
          const millis = new Set(reports.flatMap(({ decided }) => decided[which] ?? []))
          // A truncated trace would satisfy any promise.
          expect(millis.size).toBeGreaterThan(ms / 4)
          expect(merged(which, 'steady').length).toBeGreaterThanOrEqual((0.98 * perSecond * millis.size) / 1_000)
        })
      }
    })
  })
}
