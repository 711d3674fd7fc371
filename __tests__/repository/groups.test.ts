/** The test groups: together they run every test once. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parse } from 'yaml'

const ROOT = dirname(dirname(__dirname))

interface Group {
  readonly name: string
  readonly tests: readonly string[]
  readonly cargo?: readonly string[]
}

interface Matrix {
  readonly group: readonly string[]
  readonly node: readonly number[]
  readonly exclude: readonly { readonly group: string; readonly node: number }[]
}

const { GROUPS, groupOf, patternOf } = require('../../scripts/test/groups.cjs') as {
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
  expect(files.length).toBeGreaterThan(100)
  // Throws for a file in no group or in several.
  const members = GROUPS.map((group) => files.filter((file) => groupOf(file) === group))
  expect(members.flat().sort()).toEqual([...files].sort())
})

test('the error for a file in no group names it', () => {
  expect(() => groupOf('nowhere/new.test.ts')).toThrow('nowhere/new.test.ts must be in one group')
})

test('every pattern of a group matches a file', () => {
  const patterns = GROUPS.flatMap(({ tests }) => tests).flatMap(alternatives)
  const idle = patterns.filter((pattern) => {
    const expression = new RegExp(`^${patternOf([pattern])}$`)
    return !files.some((file) => expression.test(`__tests__/${file}`))
  })
  expect(idle).toEqual([])
})

test('the groups run every cargo target with tests', () => {
  const targets = [...readFileSync(join(ROOT, 'Cargo.toml'), 'utf8').matchAll(/^\[\[test\]\]\nname = "(.*)"/gm)]
  expect(targets.map(([, name]) => name)).toEqual(['engine'])
  const commands = GROUPS.flatMap(({ cargo = [] }) => cargo)
  expect([...commands].sort()).toEqual([
    'test --doc',
    'test --lib',
    'test --profile test-optimized --test engine -- --skip redis::',
    'test --profile test-optimized --test engine -- redis::',
  ])
})

test('the workflow runs every group, and those with Node.js on all of its versions', () => {
  const workflow = parse(readFileSync(join(ROOT, '.github/workflows/ci.yml'), 'utf8')) as {
    readonly jobs: { readonly group: { readonly strategy: { readonly matrix: Matrix } } }
  }
  const { group, node, exclude } = workflow.jobs.group.strategy.matrix
  expect(group).toEqual(GROUPS.map(({ name }) => name))
  expect(node).toEqual([20, 22, 24])
  const others = GROUPS.filter(({ tests }) => tests.length === 0)
  expect(exclude).toEqual(others.flatMap(({ name }) => [20, 24].map((other) => ({ group: name, node: other }))))
})

/** `a/{b,c}` is `a/b` and `a/c`. */
function alternatives(pattern: string): string[] {
  const [, before = '', names = '', after = ''] = /^(.*?)\{(.*?)\}(.*)$/.exec(pattern) ?? []
  return names === '' ? [pattern] : names.split(',').map((name) => before + name + after)
}

describe('the runner', () => {
  /** Runs steps in a separate process, and returns the result of each. */
  function run(steps: readonly object[]): unknown {
    const script = `
      import { runSteps } from './scripts/test/steps.mjs'
      const options = { root: process.argv[1], jobs: 2, verbose: false }
      const results = await runSteps(JSON.parse(process.argv[2]), options)
      console.error(JSON.stringify(results.map(({ step, status, tests }) => [step.name, status, tests])))`
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
    const busy = (name: string) => ({ name, lock: 'one', command: 'node --eval "setTimeout(() => {}, 300)"' })
    const start = performance.now()
    run([busy('a'), busy('b'), busy('c')])
    expect(performance.now() - start).toBeGreaterThan(900)
  })
})
