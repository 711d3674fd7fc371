/** Many processes whose clocks are wrong share one limit, and Redis's clock alone decides. */
import { fixedWindow, gcra, type Policy } from '../../ts/index.js'
import { RedisServer } from '../redis-server.js'
import { hammer, told } from './help.js'

const SKEWS_MS = [-7_000, -900, 1_700, 60_000]
const KEYS = ['first', 'second', 'third']
const MS = 5_000

let server: RedisServer

beforeAll(async () => {
  server = await RedisServer.start()
})

afterAll(() => server.stop())

/** The traces of all processes, by key, merged; and the time by this machine's clock before and after. */
async function traces(policy: Policy, prefix: string) {
  const work = { url: server.url, policy, prefix, keys: KEYS, inFlight: 64, ms: MS }
  const children = await Promise.all(SKEWS_MS.map((skew) => hammer(work, skew)))
  const before = Date.now() * 1_000
  const reports = await Promise.all(children.map(told))
  const after = (Date.now() + 1) * 1_000
  expect(reports.flatMap(({ failures }) => failures)).toEqual([])
  reports.forEach(({ skew }, index) => {
    // The clocks were wrong indeed, whatever the message took.
    expect(Math.abs(skew - (SKEWS_MS[index] as number))).toBeLessThan(500)
  })
  const merged = KEYS.map((key) => reports.flatMap(({ admitted }) => admitted[key] ?? []).sort((a, b) => a - b))
  return { merged, before, after }
}

/** Checks what holds for any trace: its clock, and that the law's promise was kept. */
function checkPromise(trace: readonly number[], perSecond: number, before: number, after: number) {
  const [first, last] = [trace[0] as number, trace.at(-1) as number]
  expect(first).toBeGreaterThanOrEqual(before)
  expect(last).toBeLessThanOrEqual(after)
  const elapsed = (last - first) / 1e6
  // A trace that broke off early would fulfil any promise.
  expect(elapsed).toBeGreaterThan((MS / 1_000) * 0.85)
  expect(trace.length).toBeGreaterThanOrEqual(0.98 * perSecond * elapsed)
}

test('gcra: in any span at most the burst and what the rate gives, and nearly all of that', async () => {
  const [perSecond, burst] = [2_000, 200]
  const { merged, before, after } = await traces(gcra({ limit: perSecond, period: '1s', burst }), 'gcra')
  const perUnit = 1e6 / perSecond
  for (const trace of merged) {
    // Linear: the fewest units before any call, less what the rate has given by then. All numbers are whole
    // microseconds, so that nothing needs to be tolerated.
    let least = Number.POSITIVE_INFINITY
    let worst = 0
    trace.forEach((at, index) => {
      const given = at - (trace[0] as number)
      least = Math.min(least, index * perUnit - given)
      worst = Math.max(worst, (index + 1) * perUnit - given - least)
    })
    expect(worst).toBeLessThanOrEqual(burst * perUnit)
    checkPromise(trace, perSecond, before, after)
  }
})

test('fixedWindow: the limit in each window, in any rolling one less than twice that, and nearly all of it', async () => {
  const [limit, window] = [500, 250]
  const { merged, before, after } = await traces(fixedWindow({ limit, window }), 'fixed')
  for (const trace of merged) {
    let [tail, worst] = [0, 0]
    trace.forEach((at, index) => {
      while ((trace[tail] as number) <= at - window * 1_000) {
        tail++
      }
      worst = Math.max(worst, index + 1 - tail)
    })
    expect(worst).toBeLessThanOrEqual(2 * limit - 1)
    expect(Math.max(...windowsOf(trace, window))).toBeLessThanOrEqual(limit)
    checkPromise(trace, (limit * 1_000) / window, before, after)
  }
})

/** The units of each window: the first call after an end opens the next, which ends on a whole millisecond. */
function windowsOf(trace: readonly number[], window: number): number[] {
  const counts: number[] = []
  let end = 0
  for (const at of trace) {
    if (at >= end) {
      end = Math.ceil((at + window * 1_000) / 1_000) * 1_000
      counts.push(0)
    }
    counts.push((counts.pop() as number) + 1)
  }
  return counts
}
