/** The checks of `npm run soak` find leaks and violations. `soak.deep.test.ts` runs it for minutes. */
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { Calls } from '../../tests/chaos/soak/calls.js'
import { CHECKED_NAMES, LawCheck } from '../../tests/chaos/soak/checked.js'
import { BOUNDS, growths, type Point } from '../../tests/chaos/soak/flatness.js'
import { randomOf } from '../../tests/chaos/soak/random.js'
import { TollgateError } from '../../ts/index.js'
import { VirtualLoop } from './virtual-loop.js'

const ROOT = dirname(dirname(__dirname))

/** Runs the built `npm run soak`. */
function soak(...words: string[]) {
  return spawnSync(process.execPath, [join(ROOT, '__tests__/build/tests/chaos/soak/main.js'), ...words], {
    encoding: 'utf8',
  })
}

beforeAll(() => {
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const built = spawnSync(process.execPath, [compiler, '-p', join(ROOT, 'tests/chaos/tsconfig.json')], {
    encoding: 'utf8',
  })
  expect(built.stdout).toBe('')
})

test.each([
  ['--minutes', '0'],
  ['--hours', 'many'],
  ['--hours', '1', '--minutes', '1'],
  ['--seed', 'x'],
  ['--nonsense'],
])('%s is refused', (...words) => {
  const { status, stdout, stderr } = soak(...words)
  expect([status, stdout]).toEqual([1, ''])
  expect(stderr).toMatch('Usage: npm run soak')
})

describe('growth', () => {
  const HOUR = Array.from({ length: 720 }, (_, index) => index * 5)

  /** An hour of values that vary by a fifth, with outliers, and grow by `perHour`. */
  function hour(perHour: number): Point[] {
    const random = randomOf(1)
    return HOUR.map((at) => {
      const noise = (random() - 0.5) * 20
      const outlier = random() < 0.1 ? 200 : 0
      return [at, 100 + noise + outlier + (perHour * at) / 3_600]
    })
  }

  function isFlat(perHour: number): Record<string, boolean> {
    const all = Object.keys(BOUNDS).map((name) => [name, hour(perHour * (BOUNDS[name] as number))] as const)
    return Object.fromEntries(growths(Object.fromEntries(all)).map(({ name, isFlat }) => [name, isFlat]))
  }

  const of = (value: boolean) => Object.fromEntries(Object.keys(BOUNDS).map((name) => [name, value]))

  test('a leak of twice the bound is found, and noise is none', () => {
    expect(isFlat(0)).toEqual(of(true))
    expect(isFlat(2.5)).toEqual(of(false))
  })

  test('growth during the warm-up is no leak, and a resource without values is no proof', () => {
    const warming = HOUR.map((at): Point => [at, 100 + Math.min(at, 500)])
    const [rss, heap] = growths({ rss: warming })
    expect(rss).toMatchObject({ name: 'rss', growth: 0, isFlat: true })
    expect(heap).toMatchObject({ name: 'heap', isFlat: false })
  })

  test('a step after the warm-up is growth', () => {
    const step = HOUR.map((at): Point => [at, at < 1_800 ? 100 : 160])
    expect(growths({ rss: step })[0]).toMatchObject({ name: 'rss', isFlat: false })
  })
})

describe('the law', () => {
  const SECOND = 1_000_000

  /** The violations of a limiter whose units come in bursts at some times in seconds. */
  function violations(
    bursts: readonly (readonly [at: number, units: number])[],
    loss?: Parameters<LawCheck['check']>[0],
  ) {
    const law = new LawCheck()
    const units = bursts.flatMap(([at, count]) => Array.from({ length: count }, (_, index) => at * SECOND + index))
    for (const name of CHECKED_NAMES) {
      law.add(name, units)
    }
    const found = law.check(loss)
    // The check after a loss is made before the next one.
    return [...found, ...(loss === undefined ? [] : law.check())]
  }

  test('a burst above the limit is found', () => {
    expect(violations([[10, 10]])).toEqual([])
    expect(violations([[10, 21]])).toEqual(
      expect.arrayContaining([expect.stringMatching('^sliding'), expect.stringMatching('^rate')]),
    )
  })

  test('a loss excuses one more burst, at its time only', () => {
    const loss = { from: 10_100, to: 10_500, losses: 1, overlapMs: 0 }
    expect(
      violations(
        [
          [10, 10],
          [10.4, 10],
        ],
        loss,
      ),
    ).toEqual([])
    expect(
      violations(
        [
          [10, 10],
          [10.4, 31],
        ],
        loss,
      ),
    ).not.toEqual([])
    // Before and after it, the law is strict.
    expect(violations([[5, 21]], loss)).not.toEqual([])
    expect(violations([[20, 21]], loss)).not.toEqual([])
  })
})

test('a late call, an unexpected error and a failed call are found', async () => {
  const loop = new VirtualLoop()
  const calls = new Calls(loop)
  const kind = { name: 'take', target: 'single', deadlineMs: 50, codes: ['STORE_TIMEOUT'] } as const
  /** Makes a call that settles after a time. */
  const settles = async (ms: number, error?: Error) => {
    const call = calls.make(
      kind,
      () => new Promise<void>((resolve, reject) => loop.after(ms, () => (error ? reject(error) : resolve()))),
    )
    loop.advance(ms)
    await call
  }
  await settles(10)
  await settles(10, new TollgateError('STORE_TIMEOUT', 'expected'))
  loop.advance(20)
  expect(calls.report()).toMatchObject({ errors: { STORE_TIMEOUT: 1 }, violations: [] })
  await settles(351)
  await settles(10, new TollgateError('CLOSED', 'unexpected'))
  await settles(10, new Error('a defect'))
  loop.advance(100)
  expect(calls.report().violations).toEqual([
    expect.stringMatching('failed with CLOSED'),
    expect.stringMatching('a defect'),
    'take (single) was pending for 351 ms of 50',
  ])
  expect(calls.durations()).toMatchObject({ take: [5, expect.any(Number), expect.any(Number), expect.any(Number)] })
  calls.stop()
})

test('a stall of the event loop makes no call late, and a call that never settles is found', async () => {
  const loop = new VirtualLoop()
  const calls = new Calls(loop)
  const kind = { name: 'take', target: 'single', deadlineMs: 50, codes: [] } as const
  let resolve = () => {}
  const call = calls.make(kind, () => new Promise<void>((done) => (resolve = done)))
  loop.stall(5_000)
  resolve()
  await call
  loop.advance(20)
  expect(calls.report().violations).toEqual([])
  const lost = calls.make(kind, () => new Promise<void>((done) => (resolve = done)))
  loop.advance(10_049)
  expect(calls.report().violations).toEqual([])
  loop.advance(2)
  expect(calls.report().violations).toEqual(['take (single) has not settled for 10051 ms'])
  resolve()
  await lost
  calls.stop()
})
