/** A short `npm run soak`, and the proof that its checks find leaks and violations. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Calls } from '../../chaos/soak/calls.js'
import { CHECKED_NAMES, LawCheck } from '../../chaos/soak/checked.js'
import { BOUNDS, growths, type Point } from '../../chaos/soak/flatness.js'
import { randomOf } from '../../chaos/soak/random.js'
import type { SoakRecord } from '../../chaos/soak/record.js'
import { TollgateError } from '../../ts/index.js'

const ROOT = dirname(dirname(__dirname))

let folder: string

/** Runs the built `npm run soak`. */
function soak(...words: string[]) {
  return spawnSync(process.execPath, [join(ROOT, '__tests__/build/chaos/soak/main.js'), ...words], { encoding: 'utf8' })
}

function record(): SoakRecord {
  return JSON.parse(readFileSync(join(folder, 'soak.json'), 'utf8'))
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-soak-'))
  const compiler = require.resolve('typescript/bin/tsc')
  const built = spawnSync(process.execPath, [compiler, '-p', join(ROOT, 'chaos/tsconfig.json')], { encoding: 'utf8' })
  expect(built.stdout).toBe('')
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('a soak of a minute is flat, without violations', () => {
  const { status, stderr, stdout } = soak('--minutes', '1', '--out', folder)
  expect({ status, stderr, stdout }).toMatchObject({
    status: 0,
    stderr: '',
    stdout: expect.stringMatching(' 0 violations'),
  })
  const { calls, units, faults, samples, violations, growths: found } = record()
  expect(violations).toEqual([])
  expect(found.map(({ name }) => name)).toEqual(Object.keys(BOUNDS))
  expect(calls).toBeGreaterThan(2_000)
  expect(units).toBeGreaterThan(500)
  expect(samples.length).toBeGreaterThanOrEqual(8)
  // Each target has had faults.
  expect(new Set(faults.map(({ target }) => target)).size).toBe(3)
  const svg = readFileSync(join(folder, 'soak.svg'), 'utf8')
  expect(svg).toMatch(/^<svg[\s\S]*<title>Soak of 1 min/)
})

test('a process that leaks fails the command', () => {
  const { status, stdout } = soak('--minutes', '1', '--leak', '--out', folder)
  expect(status).toBe(1)
  expect(stdout).toMatch(/^GROWS heap/m)
  expect(stdout).toMatch(/^GROWS handles/m)
  expect(record().violations).toEqual([])
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
  const calls = new Calls()
  const kind = { name: 'take', target: 'single', deadlineMs: 50, codes: ['STORE_TIMEOUT'] } as const
  const after = (ms: number, error?: Error) => () =>
    new Promise<void>((resolve, reject) => setTimeout(() => (error ? reject(error) : resolve()), ms))
  await calls.make(kind, after(10))
  await calls.make(kind, after(10, new TollgateError('STORE_TIMEOUT', 'expected')))
  await after(20)()
  expect(calls.report()).toMatchObject({ errors: { STORE_TIMEOUT: 1 }, violations: [] })
  // Long, since stalls of a busy machine are subtracted.
  await calls.make(kind, after(5_000))
  await calls.make(kind, after(10, new TollgateError('CLOSED', 'unexpected')))
  await calls.make(kind, after(10, new Error('a defect')))
  await after(100)()
  expect(calls.report().violations).toEqual([
    expect.stringMatching('failed with CLOSED'),
    expect.stringMatching('a defect'),
    expect.stringMatching('was pending for'),
  ])
  expect(calls.durations()).toMatchObject({ take: [5, expect.any(Number), expect.any(Number), expect.any(Number)] })
  calls.stop()
})
