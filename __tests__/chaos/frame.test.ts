/** The chaos checks detect violations: a check that cannot fail proves nothing. */
import { admissions } from '../../tests/chaos/admission.js'
import type { Pace } from '../../tests/chaos/fault.js'
import type { LoadReport, Unit } from '../../tests/chaos/load.js'
import { LoopDelay } from '../../tests/chaos/loop-delay.js'
import { GRACE_MS, judged, type Measured, TIMEOUT_MS, underLoad } from '../../tests/chaos/scene.js'
import { RATE, WINDOW } from '../../tests/chaos/traffic.js'
import { until } from '../servers/until.js'
import { VirtualLoop } from './virtual-loop.js'

/** Without pauses: the fault below waits for its effects. */
const PACE: Pace = { isShort: true, isTimed: false, calmMs: 0, faultMs: 0 }

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

test('stalls of the event loop are not counted as lateness of the limiter, and all other delays are', () => {
  const loop = new VirtualLoop()
  const delay = new LoopDelay(undefined, loop)
  delay.start()
  loop.advance(50)
  const start = loop.now()
  loop.advance(150)
  const free = loop.now()
  loop.stall(200)
  loop.advance(20)
  const settled = loop.now()
  loop.advance(20)
  delay.stop()
  // The loop was blocked for 200 ms, and the call's deadline was in the middle of that.
  const net = delay.net(start, settled, 250)
  expect(settled - start).toBe(370)
  expect(net).toBe(270)
  // Without a deadline within a stall only its end is subtracted: the call's earlier wait is its
  // own.
  expect(delay.net(start, settled, 1_000)).toBe(370)
  expect(delay.net(start, free, 50)).toBe(150)
  expect(delay.ofWhich(start, settled)).toBe(170)
  expect(delay.longestMs).toBe(198)
})

describe('the promises of all rows', () => {
  const fine = { normalMs: 900, loopDelayMs: 0, timeoutMs: TIMEOUT_MS, isTimed: true }

  /** The broken promises of a row that may fail with `STORE_TIMEOUT`, and had some. */
  function broken(measured: Partial<Measured>, changed: Partial<LoadReport> = {}): string[] {
    const found: string[] = []
    const expectKept = (isKept: boolean, promise: string) => isKept || found.push(promise)
    const errors = { STORE_TIMEOUT: 3 }
    const promised = { errors: ['STORE_TIMEOUT'] } as const
    judged({ ...report({}), errors, ...changed }, { ...fine, ...measured }, promised, expectKept)
    return found
  }

  test('are kept by a row with the expected errors, in time', () => {
    expect(broken({})).toEqual([])
  })

  test('are broken by a late call, a lost call, a foreign error, no error, and an excess', () => {
    const longest = { net: TIMEOUT_MS + GRACE_MS + 1, raw: 900 }
    expect(broken({}, { longest })).toEqual(['a call was pending for 351 ms of 300'])
    expect(broken({}, { lost: 1 })).toEqual(['1 calls never settled'])
    expect(broken({}, { errors: { STORE_TIMEOUT: 1, CLOSED: 1 } })).toEqual(['calls failed with CLOSED'])
    expect(broken({}, { errors: {} })).toEqual(['the fault was to be felt: STORE_TIMEOUT'])
    const window = { key: units(WINDOW.limit + 1, 0, 1, WINDOW.window * 1_000) }
    expect(broken({}, { admitted: { window, rate: { key: [] } } })).toEqual([expect.stringMatching('101 of 100')])
  })

  test('are broken without a recovery, and by a late one', () => {
    expect(broken({ normalMs: undefined })).toEqual(['calls succeed again'])
    expect(broken({ normalMs: 1_001, isTimed: false })).toEqual([])
    expect(broken({ normalMs: 1_001 })).toEqual(['calls failed for 1001 ms after the store was well'])
  })
})

test('a fault that causes an unexpected error breaks its promises', async () => {
  const { broken, errors } = await underLoad(PACE, { promised: { errors: [] } }, async (scene) => {
    await until('units are charged', async () => scene.load.report().counted.told > 0)
    await scene.server.kill()
    await until('calls fail', async () => 'STORE_UNAVAILABLE' in scene.load.report().errors)
    await scene.server.begin()
    scene.healthy()
    scene.expect(false, 'what the fault itself expects')
  })
  expect(errors).toMatchObject({ STORE_UNAVAILABLE: expect.any(Number) })
  expect(broken).toContain('what the fault itself expects')
  expect(broken).toContainEqual(expect.stringMatching(/^calls failed with .*STORE_UNAVAILABLE/))
  // Its state was lost, and with it the charged units.
  expect(broken.join()).toMatch(/at most once: \d+ units charged, \d+ told/)
})
