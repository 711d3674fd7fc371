/**
 * The pages about performance, their plots and the figures of the README are generated from the record: no
 * figure is typed by hand or stale.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from './pages.js'

const REPORT = join(ROOT, 'tests', 'benches', 'report', 'main.mjs')
const DOCS = join(ROOT, 'docs')
const PLOTS = join('plots', 'performance')

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-report-'))
})

afterEach(() => {
  rmSync(folder, { recursive: true })
})

const PAGES = ['performance.md', 'performance-figures.md']

/** Generates pages and plots from records, and returns the text of the pages. */
function pageOf(...records: readonly string[]): string {
  const words = [REPORT, '--out', folder, ...records.flatMap((file) => ['--from', file])]
  const { status, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return pagesIn(folder)
}

function pagesIn(place: string): string {
  return PAGES.map((page) => read(place, page)).join('\n')
}

function read(...path: readonly string[]): string {
  return readFileSync(join(...path), 'utf8')
}

/** The text between a page's markers. */
function figures(page: string, name: string): string {
  return new RegExp(`<!-- figures: ${name} -->\n(.*?)<!-- end -->`, 's').exec(page)?.[1]?.trim() ?? ''
}

/** A part with one comparison over Redis. */
function record(ours: number, speed = 'full'): string {
  const result = { cpuMicros: 1, redisMicros: 1, callsPerScript: 1, ratioToPeer: ours / 100_000, ratioToBest: 1 }
  const results = [
    { name: 'tollgate gcra', callsPerSecond: ours, ...result, rounds: [{ calls: 7, callsPerSecond: ours }] },
    { name: 'a peer', callsPerSecond: 100_000, ...result, rounds: [{ calls: 6, callsPerSecond: 90_000 }] },
  ]
  const target = { of: 'tollgate gcra', to: 'a peer', figure: 'calls/s', atLeast: 2, ratio: ours / 100_000, met: false }
  const others = [
    { ...target, of: 'tollgate fixedWindow', ratio: 0.4 },
    { ...target, figure: 'calls/s, 8 in flight', ratio: 3, met: true },
    { of: 'redisMicros', atMost: 6, ratio: 5, met: true },
    { of: 'tollgate gcra', figure: 'redisMicros', atMost: 1_500, ratio: 2_000, met: false },
  ]
  const scenes = [
    { title: '1 in flight', inFlight: 1, limiters: 1, peer: 'a peer', results, targets: [target, ...others] },
  ]
  const file = join(folder, 'measured.json')
  const machine = { cpu: 'some', cores: 2, memoryGiB: 4, system: 'linux', load: 0 }
  const shared = { measured: '2026-01-31T12:00:00.000Z', speed, machine, versions: { node: '20.0.0' } }
  writeFileSync(file, JSON.stringify({ ...shared, parts: { redis: { pace: { rounds: 1, turnMs: 1 }, scenes } } }))
  return file
}

test('pages, plots and the figures of the README are current', () => {
  const page = pageOf(join(DOCS, 'performance.json'))
  expect(page).toBe(pagesIn(DOCS))
  expect(read(folder, 'README.md')).toBe(read(ROOT, 'README.md'))
  expect(read(folder, 'performance.json')).toBe(read(DOCS, 'performance.json'))
  const [drawn, kept] = [folder, DOCS].map((place) => readdirSync(join(place, PLOTS)).sort()) as [string[], string[]]
  expect(drawn).toEqual(kept)
  for (const name of drawn) {
    expect(read(folder, PLOTS, name) === read(DOCS, PLOTS, name) ? 'same' : name).toBe('same')
  }
})

test('every plot is shown, and every table has figures', () => {
  const page = pagesIn(DOCS)
  const shown = [...page.matchAll(/\(plots\/performance\/([a-z-]+\.svg)\)/g)].map(([, name]) => name)
  expect(shown.sort()).toEqual(readdirSync(join(DOCS, PLOTS)).sort())
  const empty = [...page.matchAll(/<!-- figures: ([a-z0-9-]+) -->/g)].filter(([, name]) => {
    return !/^\||^-/m.test(figures(page, name as string))
  })
  expect(empty.map(([, name]) => name)).toEqual([])
})

test('figures stand only between markers', () => {
  const prose = pagesIn(DOCS).replace(/<!-- figures: .*?<!-- end -->/gs, '')
  expect(prose.match(/[\d.]+k?\s?(µs|ns|MB|bytes|times|calls a second|×)/g)).toBeNull()
})

test('the page reports a faster peer and a missed target', () => {
  const page = pageOf(record(50_000))
  expect(figures(page, 'losses').split('\n').slice(2)).toEqual([
    '| 1 in flight | tollgate gcra | calls a second | a peer | 2.00 | `redis` |',
  ])
  expect(figures(page, 'targets')).toContain('| at least 2 | 0.50 | **missed** |')
  // The worst ratio of each bound, and how many miss it.
  expect(figures(page, 'missed-targets').split('\n').slice(2)).toEqual([
    '| tollgate fixedWindow / a peer: calls/s | `redis` | at least 2 | 0.40 | 2 of 3 |',
    "| tollgate gcra: Redis's CPU µs per call | `redis` | at most 1500 | 2000 | 1 of 1 |",
  ])
  expect(figures(page, 'redis')).toContain('| tollgate gcra | 50.0k | 50.0k to 50.0k | **0.50** |')
  expect(figures(page, 'scale-keys')).toBe('Not measured yet.')
  expect(figures(page, 'machine')).not.toContain('rough')
})

test('the page says if no peer is faster, and marks figures of short runs as rough', () => {
  const page = pageOf(record(102_000, 'quick'))
  expect(figures(page, 'losses')).toBe('No peer is better in these figures.')
  expect(figures(page, 'machine')).toContain('rough figures, of short turns (`--quick`):** `redis`')
})

test('a new measurement replaces its part, and keeps the others', () => {
  pageOf(join(DOCS, 'performance.json'))
  const before = JSON.parse(read(folder, 'performance.json')).parts
  pageOf(record(50_000))
  const { redis, ...others } = JSON.parse(read(folder, 'performance.json')).parts
  expect(redis.scenes).toHaveLength(1)
  expect(others).toEqual({ ...before, redis: undefined })
})
