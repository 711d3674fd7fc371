/** A short `npm run soak` on real servers, and one of a process that leaks. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { BOUNDS } from '../../tests/chaos/soak/flatness.js'
import type { SoakRecord } from '../../tests/chaos/soak/record.js'

const ROOT = dirname(dirname(__dirname))

let folder: string

/** Runs the built `npm run soak`. */
function soak(...words: string[]) {
  return spawnSync(process.execPath, [join(ROOT, '__tests__/build/tests/chaos/soak/main.js'), ...words], {
    encoding: 'utf8',
  })
}

function record(): SoakRecord {
  return JSON.parse(readFileSync(join(folder, 'soak.json'), 'utf8'))
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-soak-'))
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const built = spawnSync(process.execPath, [compiler, '-p', join(ROOT, 'tests/chaos/tsconfig.json')], {
    encoding: 'utf8',
  })
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
