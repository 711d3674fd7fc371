/** The short form of `npm run chaos`: each fault runs in its own process, against real servers. */
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

const short = FAULTS.filter(({ isLong = false }) => !isLong)

test.each(short)('$name: $title', ({ name }) => {
  const file = join(folder, `${name}.json`)
  const { status, stderr } = chaos('--short', '--only', name, '--json', file)
  const { results } = JSON.parse(readFileSync(file, 'utf8')) as { results: readonly Result[] }
  expect(results.map(({ name, broken }) => ({ name, broken }))).toEqual([{ name, broken: [] }])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
})
