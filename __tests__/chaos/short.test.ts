/**
 * The command `npm run chaos`, and one decisive fault in its own process, against a real server. `short.deep.test.ts`
 * runs all of them, and judges their times.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { FAULTS } from '../../tests/chaos/faults/all.js'
import type { Result } from '../../tests/chaos/report.js'

const ROOT = dirname(dirname(__dirname))

let folder: string

/** Runs the built `npm run chaos`. */
function chaos(...words: string[]) {
  return spawnSync(process.execPath, [join(ROOT, '__tests__/build/tests/chaos/main.js'), ...words], {
    encoding: 'utf8',
  })
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-chaos-'))
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const built = spawnSync(process.execPath, [compiler, '-p', join(ROOT, 'tests/chaos/tsconfig.json')], {
    encoding: 'utf8',
  })
  expect(built.stdout).toBe('')
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('a fault runs in its own process, and keeps its promises', () => {
  const file = join(folder, 'kill-aof.json')
  const { status, stderr } = chaos('--short', '--untimed', '--only', 'kill-aof', '--json', file)
  const { results } = JSON.parse(readFileSync(file, 'utf8')) as { results: readonly Result[] }
  expect(results).toMatchObject([{ name: 'kill-aof', broken: [], errors: { STORE_UNAVAILABLE: expect.any(Number) } }])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
})

test('--list prints the faults, each with a unique name', () => {
  const names = chaos('--list')
    .stdout.trim()
    .split('\n')
    .map((line) => line.split(' ')[0])
  expect(names).toEqual(FAULTS.map(({ name }) => name))
  expect(new Set(names).size).toBe(names.length)
})

test.each([
  ['--only', 'nonsense'],
  ['--cycles', '0'],
  ['--nonsense', ''],
])('%s %s is refused', (...words) => {
  const { status, stdout, stderr } = chaos(...words)
  expect([status, stdout]).toEqual([1, ''])
  expect(stderr).toMatch('Usage: npm run chaos')
})
