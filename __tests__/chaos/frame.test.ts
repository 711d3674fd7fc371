/** The chaos checks detect violations: a check that cannot fail proves nothing. */
import { setTimeout as sleep } from 'node:timers/promises'
import { admissions } from '../../chaos/admission.js'
import type { Pace } from '../../chaos/fault.js'
import type { LoadReport, Unit } from '../../chaos/load.js'
import { LoopDelay } from '../../chaos/loop-delay.js'
import { LONG_TIMEOUT_MS, underLoad } from '../../chaos/scene.js'
import { RATE, WINDOW } from '../../chaos/traffic.js'

const PACE: Pace = { isShort: true, calmMs: 300, faultMs: 500 }

/** A report of the units admitted on one key. */
function report(admitted: { readonly window?: readonly Unit[]; readonly rate?: readonly Unit[] }): LoadReport {
  const { window = [], rate = [] } = admitted
  const nothing = { calls: 0, longest: { net: 0, raw: 0 }, errors: {}, unknown: 0, lost: 0 }
  return { ...nothing, counted: { told: 0, unknown: 0 }, admitted: { window: { key: window }, rate: { key: rate } } }
}

/** `count` units, `apart` microseconds apart. */
function units(count: number, start: number, apart: number, windowEnd = 0): Unit[] {
  return Array.from({ length: count }, (_, index) => ({ at: start + index * apart, windowEnd, heard: 0 }))
}

/** The violations in a trace of admitted units. */
function wrong(admitted: Parameters<typeof report>[0], losses = 0): (string | undefined)[] {
  return admissions([report(admitted)], { losses }).map(({ wrong }) => wrong)
}

describe('admission', () => {
  const { limit } = WINDOW
  const length = WINDOW.window * 1_000

  test("detects one unit above a window's limit", () => {
    expect(wrong({ window: units(limit, 0, 1, length) })).toEqual([undefined, undefined])
    expect(wrong({ window: units(limit + 1, 0, 1, length) })).toEqual([expect.stringMatching('101 of 100'), undefined])
    // This holds even if states may have been lost.
    expect(wrong({ window: units(limit + 1, 0, 1, length) }, 5)[0]).toMatch('101 of 100')
  })

  test("detects one unit above a span's limit, unless a state was lost", () => {
    const two = [...units(limit, 0, 1, length), ...units(limit, 1_000, 1, 2 * length)]
    expect(wrong({ window: two })[0]).toMatch('200 of 199')
    expect(wrong({ window: two }, 1)[0]).toBeUndefined()
    expect(wrong({ window: [...two, ...units(limit, 2_000, 1, 3 * length)] }, 1)[0]).toMatch('300 of 299')
  })

  test('after the clock was set back, a window may have twice its limit, and not one unit more', () => {
    const violations = (count: number) =>
      admissions([report({ window: units(count, 0, 1, length) })], { losses: 1, isSetBack: true })[0]?.wrong
    expect(violations(2 * limit)).toBeUndefined()
    expect(violations(2 * limit + 1)).toMatch('201 of 200')
  })

  test('detects one unit above a rate, unless a state was lost', () => {
    const micros = (RATE.period * 1_000) / RATE.limit
    const fair = [...units(RATE.burst, 0, 0), ...units(100, micros, micros)]
    expect(wrong({ rate: fair })[1]).toBeUndefined()
    expect(wrong({ rate: [...units(1, 0, 0), ...fair] })[1]).toMatch('above the burst')
    expect(wrong({ rate: [...units(RATE.burst, 0, 0), ...fair] }, 1)[1]).toBeUndefined()
    expect(wrong({ rate: [...units(RATE.burst + 1, 0, 0), ...fair] }, 1)[1]).toMatch('above the burst')
  })

  test('checks several processes together, by a correct clock', () => {
    const half = () => report({ window: units(limit / 2 + 1, 0, 1, length) })
    expect(admissions([half(), half()], { losses: 0 })[0]?.wrong).toMatch('102 of 100')
    const timeOf = ({ at }: Unit) => at * 2
    expect(admissions([half()], { losses: 0, timeOf })[0]).toMatchObject({ admitted: limit / 2 + 1, wrong: undefined })
  })
})

test('stalls of the event loop are not counted as lateness of the limiter, and all other delays are', async () => {
  const delay = new LoopDelay()
  delay.start()
  await sleep(50)
  const start = performance.now()
  await sleep(150)
  const free = performance.now()
  while (performance.now() < free + 200) {}
  await sleep(20)
  const settled = performance.now()
  await sleep(20)
  delay.stop()
  // The loop was blocked for 200 ms, and the call's deadline was in the middle of that.
  const net = delay.net(start, settled, 250)
  expect(settled - start).toBeGreaterThan(360)
  expect(net).toBeGreaterThanOrEqual(250)
  expect(net).toBeLessThan(320)
  // Without a deadline within a stall only its end is subtracted: the call's earlier wait is its
  // own.
  expect(delay.net(start, settled, 1_000)).toBe(settled - start)
  expect(delay.net(start, free, 50)).toBeGreaterThan(50)
  expect(delay.ofWhich(start, settled)).toBeLessThan(settled - start - 190)
  expect(delay.longestMs).toBeGreaterThan(150)
})

test('a fault that causes an unexpected error breaks its promises', async () => {
  const { broken, errors, calls } = await underLoad(PACE, { promised: { errors: [] } }, async (scene) => {
    await scene.server.kill()
    await sleep(PACE.faultMs)
    await scene.server.begin()
    scene.healthy()
    scene.expect(false, 'what the fault itself expects')
  })
  expect(calls).toBeGreaterThan(50)
  expect(errors).toMatchObject({ STORE_UNAVAILABLE: expect.any(Number) })
  expect(broken).toContain('what the fault itself expects')
  expect(broken).toContainEqual(expect.stringMatching(/^calls failed with .*STORE_UNAVAILABLE/))
  // Its state was lost, and with it the charged units.
  expect(broken.join()).toMatch(/at most once: \d+ units charged, \d+ told/)
})

test('a fault without effect, and one without recovery, break their promises', async () => {
  const promised = { errors: ['STORE_TIMEOUT'] } as const
  const unfelt = await underLoad(PACE, { timeoutMs: LONG_TIMEOUT_MS, promised }, async (scene) => scene.healthy())
  expect(unfelt.broken).toEqual(['the fault was to be felt: STORE_TIMEOUT'])
  const lasting = await underLoad(PACE, { promised }, async (scene) => {
    scene.server.freeze()
    scene.healthy()
  })
  expect(lasting.broken).toContain('calls succeed again')
})
