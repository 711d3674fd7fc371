/**
 * `npm run bench:guard`, which counts instructions: its verdicts on given figures. CI covers the
 * counting itself on each run. No figure contains time.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { POLICY_KINDS } from '../../ts/backends/protocol.js'

const ROOT = dirname(dirname(__dirname))
const GUARD = join(ROOT, 'tests', 'benches', 'guard', 'main.mjs')
const COMMITTED = join(ROOT, 'tests', 'benches', 'guard.json')
const FIGURES = { 'gcra, admitted': 200, 'redis, read': 1_000.5 }

interface InstructionCounts {
  readonly rustc: string
  readonly instructions: Readonly<Record<string, number>>
}

let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-guard-'))
})

afterAll(() => {
  rmSync(folder, { recursive: true })
})

test.each([
  ['as before', 200],
  ['nine per cent more', 218],
  ['ten per cent more', 220],
  ['nine per cent less', 182],
])('%s passes', (_, instructions) => {
  const { status, summary } = compare({ ...FIGURES, 'gcra, admitted': instructions })
  expect(status).toBe(0)
  expect(summary).not.toContain('gcra, admitted')
})

test('eleven per cent more fails, and names only the case that has grown', () => {
  const { status, summary } = compare({ ...FIGURES, 'redis, read': 1_111 })
  expect(status).toBe(1)
  expect(summary).toContain('FAILED: redis, read: grew')
  expect(summary).not.toContain('gcra')
})

test('eleven per cent less passes, and suggests renewing the figures', () => {
  const { status, summary } = compare({ ...FIGURES, 'gcra, admitted': 178 })
  expect(status).toBe(0)
  expect(summary).toContain('gcra, admitted: shrank')
  expect(summary).not.toContain('redis')
})

test('a missing count fails, and so does a count of zero', () => {
  for (const counted of [{ 'gcra, admitted': 200 }, { ...FIGURES, 'redis, read': 0 }]) {
    const { status, summary } = compare(counted)
    expect({ status, summary }).toEqual({
      status: 1,
      summary: expect.stringContaining('FAILED: redis, read: has a figure'),
    })
  }
})

test('a case without a figure fails', () => {
  const { status, summary } = compare({ ...FIGURES, 'a newcomer': 1 })
  expect({ status, summary }).toEqual({
    status: 1,
    summary: expect.stringContaining('FAILED: a newcomer: has no figure'),
  })
})

test('another processor has no figures, which fails', () => {
  const { status, summary } = run({ figures: { pdp11: of(FIGURES) }, counted: of(FIGURES) })
  expect({ status, summary }).toEqual({
    status: 1,
    summary: expect.stringContaining(`There are no figures for ${process.arch}`),
  })
})

test('another compiler version is reported as a possible reason', () => {
  const counted = { ...of({ ...FIGURES, 'gcra, admitted': 230 }), rustc: '9.9.9' }
  const { status, summary } = run({ figures: { [process.arch]: of(FIGURES) }, counted })
  expect(status).toBe(1)
  expect(summary).toContain('The figures are of rustc 1.2.3, and this is 9.9.9')
})

test('renewed figures equal the counts, and figures of other processors stay', () => {
  const [counted, other] = [of({ 'gcra, admitted': 300, 'a newcomer': 1 }), of({ 'gcra, admitted': 7 })]
  const { status, figures } = run({ figures: { pdp11: other, [process.arch]: of(FIGURES) }, counted }, '--update')
  expect({ status, figures }).toEqual({ status: 0, figures: { pdp11: other, [process.arch]: counted } })
})

test("the committed figures come from CI's compiler", () => {
  const workflow = readFileSync(join(ROOT, '.github', 'workflows', 'ci.yml'), 'utf8')
  expect(committed().rustc).toBe(/RUSTUP_TOOLCHAIN: (\S+)/.exec(workflow)?.[1])
})

test('each algorithm has figures for an admitted and for a refused call', () => {
  const cases = Object.keys(committed().instructions)
  const algorithms = [...new Set(Object.values(POLICY_KINDS).map(({ algorithm }) => algorithm))]
  // `slidingLog` is "sliding log".
  const names = algorithms.map((name) => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`))
  const needed = names.flatMap((name) => [`${name}, admitted`, `${name}, refused`])
  expect(needed.filter((name) => !cases.includes(name))).toEqual([])
})

test('without valgrind it fails, and names the package to install', () => {
  const path = join(folder, 'empty')
  mkdirSync(path)
  const script = join(ROOT, 'scripts', 'ensure-valgrind.mjs')
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8', env: { PATH: path } })
  expect(status).toBe(1)
  expect(stderr).toContain('Missing: valgrind. Debian, Ubuntu: sudo apt-get install valgrind')
})

/** The figures of CI's machine. */
function committed(): InstructionCounts {
  const { x64 } = JSON.parse(readFileSync(COMMITTED, 'utf8')) as { readonly x64: InstructionCounts }
  return x64
}

function of(instructions: Readonly<Record<string, number>>): InstructionCounts {
  return { rustc: '1.2.3', instructions }
}

function compare(instructions: Readonly<Record<string, number>>): {
  readonly status: number | null
  readonly summary: string
} {
  const { status, summary } = run({ figures: { [process.arch]: of(FIGURES) }, counted: of(instructions) })
  return { status, summary }
}

/**
 * Runs the comparison, and returns the exit code, the text below the table, and the figures
 * afterwards.
 */
function run(
  { figures, counted }: { figures: Record<string, InstructionCounts>; counted: InstructionCounts },
  ...options: string[]
) {
  const files = [join(folder, 'figures.json'), join(folder, 'counted.json')] as const
  writeFileSync(files[0], JSON.stringify(figures))
  writeFileSync(files[1], JSON.stringify(counted))
  const words = [GUARD, '--figures', files[0], '--counted', files[1], ...options]
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' })
  const summary = `${stdout.split('\n\n').at(-1) ?? ''}${stderr}`.trim()
  return { status, summary, figures: JSON.parse(readFileSync(files[0], 'utf8')) as unknown }
}
