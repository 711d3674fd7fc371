/** The groups of the gate and the parts of the search: together they run every test. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { parse } from 'yaml'

const ROOT = dirname(dirname(__dirname))

interface Group {
  readonly name: string
  readonly tests: readonly string[]
  readonly onWasm?: readonly string[]
}

interface Jobs {
  readonly group: { readonly strategy: { readonly matrix: Matrix } }
  readonly search: { readonly strategy: { readonly matrix: { readonly part: readonly string[] } } }
}

interface Matrix {
  readonly group: readonly string[]
  readonly node: readonly number[]
  readonly exclude: readonly { readonly group: string; readonly node: number }[]
}

const { DEEP, GROUPS, groupOf, patternOf } = require('../../scripts/test/groups.cjs') as {
  readonly DEEP: Group
  readonly GROUPS: readonly Group[]
  groupOf(file: string): Group
  patternOf(tests: readonly string[]): string
}

const TESTS = dirname(__dirname)

/** The test files of the working tree, committed or not, relative to `__tests__/`. */
const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: TESTS,
  encoding: 'utf8',
})
  .split('\0')
  .filter((file) => file.endsWith('.test.ts') && existsSync(join(TESTS, file)))

test('every test file is in one group', () => {
  // Throws for a file in no group or in several.
  const members = [...GROUPS, DEEP].map((group) => files.filter((file) => groupOf(file) === group))
  expect(members.flat().sort()).toEqual([...files].sort())
})

test('the error for a file in no group names it', () => {
  expect(() => groupOf('nowhere/new.test.ts')).toThrow('nowhere/new.test.ts must be in one group')
})

test('every pattern of a group matches a file', () => {
  const patterns = GROUPS.flatMap(({ tests, onWasm = [] }) => [...tests, ...onWasm]).flatMap(alternatives)
  const idle = patterns.filter((pattern) => {
    const expression = new RegExp(`^${patternOf([pattern])}$`)
    return !files.some((file) => expression.test(`__tests__/${file}`))
  })
  expect(idle).toEqual([])
})

test('the workflow runs every group on all versions of Node.js, and every part of the search', () => {
  const workflow = parse(readFileSync(join(ROOT, '.github/workflows/nightly.yml'), 'utf8')) as { readonly jobs: Jobs }
  const { group, node, exclude } = workflow.jobs.group.strategy.matrix
  expect(group).toEqual(GROUPS.map(({ name }) => name))
  expect(node).toEqual([20, 22, 24])
  const others = GROUPS.filter(({ tests }) => tests.length === 0)
  expect(exclude).toEqual(others.flatMap(({ name }) => [20, 22].map((other) => ({ group: name, node: other }))))
  const listed = spawnSync(process.execPath, ['scripts/test-deep.mjs', '--list'], { cwd: ROOT, encoding: 'utf8' })
  expect(workflow.jobs.search.strategy.matrix.part).toEqual(listed.stdout.match(/^\S+/gm))
})

/** `a/{b,c}` is `a/b` and `a/c`. */
function alternatives(pattern: string): string[] {
  const [, before = '', names = '', after = ''] = /^(.*?)\{(.*?)\}(.*)$/.exec(pattern) ?? []
  return names === '' ? [pattern] : names.split(',').map((name) => before + name + after)
}

describe('the runner', () => {
  /** Runs steps in a separate process, and returns its result. */
  function run(
    steps: readonly object[],
    result = 'results.map(({ step, status, tests }) => [step.name, status, tests])',
  ): unknown {
    const script = `
      import { runSteps, unchangedSteps } from './scripts/test/steps.mjs'
      const options = { root: process.argv[1], jobs: 2, verbose: false }
      const steps = JSON.parse(process.argv[2])
      const results = await runSteps(steps, options)
      console.error(JSON.stringify(${result}))`
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-steps-'))
    const words = ['--input-type=module', '--eval', script, folder, JSON.stringify(steps)]
    const { stderr } = spawnSync(process.execPath, words, { cwd: ROOT, encoding: 'utf8' })
    rmSync(folder, { recursive: true })
    return JSON.parse(stderr)
  }

  const none = { passed: 0, failed: 0 }

  test('skips the steps that depend on a failed one, and runs all others', () => {
    const steps = [
      { name: 'wrong', command: 'node --eval "process.exit(3)"' },
      { name: 'needy', command: 'node --eval 1', needs: ['wrong'] },
      { name: 'needier', command: 'node --eval 1', needs: ['needy'] },
      { name: 'free', command: 'node --eval 1' },
    ]
    expect(run(steps)).toEqual([
      ['wrong', 'failed', none],
      ['needy', 'not run', none],
      ['needier', 'not run', none],
      ['free', 'passed', none],
    ])
  })

  test('adds up the counts of Jest and cargo', () => {
    const lines = [
      'Tests:       2 failed, 3 skipped, 40 passed, 45 total',
      'test result: ok. 5 passed; 1 failed; 0 ignored',
    ]
    const command = `node --eval "console.log(process.env.LINES_OF_A_LOG)"`
    const step = { name: 'counted', command, env: { LINES_OF_A_LOG: lines.join('\n') } }
    expect(run([step])).toEqual([['counted', 'passed', { passed: 45, failed: 3 }]])
  })

  test('never runs two steps of one lock at the same time', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-lock-'))
    const file = join(folder, 'running')
    // Fails if the file of another step is there.
    const script = [
      "const fs = require('node:fs')",
      `fs.writeFileSync('${file}', '', { flag: 'wx' })`,
      `setTimeout(() => fs.rmSync('${file}'), 300)`,
    ].join(';')
    const exclusive = (name: string) => ({
      name,
      lock: 'one',
      command: `node --eval "${script}"`,
    })
    expect(run([exclusive('a'), exclusive('b'), exclusive('c')])).toEqual(
      ['a', 'b', 'c'].map((name) => [name, 'passed', none]),
    )
    rmSync(folder, { recursive: true })
  })

  test('a step that passed is unchanged until a file that it reads, its command or its environment changes', () => {
    const folder = mkdtempSync(join(ROOT, 'target', 'test-reads-'))
    const reads = [relative(ROOT, folder)]
    writeFileSync(join(folder, 'a.txt'), 'before')
    const step = { name: `stamped ${folder.slice(-6)}`, command: 'node --eval 1', reads }
    const changed = `unchangedSteps([
      steps[0], { ...steps[0], command: 'node --eval 2' }, { ...steps[0], env: { A: '1' } }, { name: 'never ran', reads: [] },
    ]).map(({ command, env }) => [command, env])`
    expect(run([step], changed)).toEqual([['node --eval 1', null]])
    writeFileSync(join(folder, 'a.txt'), 'after')
    const failing = { ...step, command: 'node --eval "process.exit(1)"' }
    expect(run([failing], 'unchangedSteps(steps).length')).toBe(0)
    rmSync(folder, { recursive: true })
  })
})
