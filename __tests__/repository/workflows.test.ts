/**
 * The workflows: actionlint's findings, and checks that it cannot make: the commands and files of
 * their steps exist.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { parse } from 'yaml'

const ROOT = dirname(dirname(__dirname))
const FOLDER = join(ROOT, '.github', 'workflows')
const CHECK = join(ROOT, 'scripts', 'check-workflows.mjs')

interface Step {
  readonly run?: string
  readonly uses?: string
  readonly with?: Readonly<Record<string, unknown>>
}

interface Matrix {
  readonly runner: readonly string[]
  readonly node: readonly number[]
  readonly include: readonly { readonly target: string }[]
}

interface Job {
  readonly uses?: string
  readonly needs?: string
  readonly steps?: readonly Step[]
  readonly permissions?: object
  readonly strategy?: { readonly matrix: Matrix }
}

interface Workflow {
  readonly permissions: object
  readonly jobs: Readonly<Record<string, Job>>
}

interface Manifest {
  readonly scripts: object
  readonly napi: { readonly targets: readonly string[] }
}

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest
const names = readdirSync(FOLDER)
const workflows = Object.fromEntries(names.map((name) => [name, read(name)]))
const jobs = Object.values(workflows).flatMap((workflow) => Object.values(workflow.jobs))
const steps = jobs.flatMap((job) => job.steps ?? [])
const commands = steps.flatMap(({ run = '' }) => run.split('\n'))

test('actionlint finds no problem', async () => {
  expect(await check()).toBe(`${names.length} workflows, 0 problems`)
})

test('actionlint detects a wrong runner, a wrong context and untrusted text', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-workflow-'))
  const file = join(folder, 'bad.yml')
  const step = (context: string) => `      - run: echo $${'{{'} ${context} }}\n`
  const bad = [
    'on: push\njobs:\n  bad:\n    runs-on: ubuntu-1.0\n    steps:\n',
    step('github.event.pull_request.title'),
    step('nothing.here'),
  ].join('')
  writeFileSync(file, bad)
  try {
    const findings = await check(file)
    expect(findings).toContain('label "ubuntu-1.0" is unknown')
    expect(findings).toContain('"github.event.pull_request.title" is potentially untrusted')
    expect(findings).toContain('undefined variable "nothing"')
    expect(findings).toContain('1 workflows, 3 problems')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('the scripts, files and subcommands of the steps exist', () => {
  const scripts = commands.flatMap((command) => /^npm (?:run )?([\w:]+)/.exec(command)?.[1] ?? [])
  const own = [...new Set(scripts)].filter((script) => !['ci', 'audit'].includes(script))
  expect(own.filter((script) => !(script in manifest.scripts))).toEqual([])

  const files = commands.flatMap((command) => /\bnode (scripts\/\S+)/.exec(command)?.[1] ?? [])
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([])
})

test('no step interpolates text of an event, or any expression except the matrix', () => {
  const expressions = commands.flatMap((command) => command.match(/\$\{\{.*?\}\}/g) ?? [])
  expect(expressions.filter((text) => !/^\$\{\{ matrix\.\w+ \}\}$/.test(text))).toEqual([])
})

test('actions are pinned to a commit, with the version beside it, and persist no token', () => {
  const lines = names.flatMap((name) => readFileSync(join(FOLDER, name), 'utf8').match(/uses: .*/g) ?? [])
  const loose = lines.filter((line) => !/^uses: (?:\.\/\S+|[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$/.test(line))
  expect(loose).toEqual([])
  const checkouts = steps.filter(({ uses }) => uses?.startsWith('actions/checkout@'))
  expect(checkouts.filter((step) => step.with?.['persist-credentials'] !== false)).toEqual([])
})

test('no job has write permission, except those that publish, which run no code of packages', () => {
  expect(Object.values(workflows).map(({ permissions }) => permissions)).toEqual(
    names.map(() => ({ contents: 'read' })),
  )
  const { publish } = jobsOf('release.yml')
  expect(publish?.permissions).toEqual({ contents: 'read', 'id-token': 'write' })
  const { publish: publishSite } = jobsOf('site.yml')
  expect(publishSite?.permissions).toEqual({ contents: 'write' })
  expect(publishSite?.steps?.filter(({ run = '' }) => /\bnp[mx]\b/.test(run))).toEqual([])
  const publishing = [publish, publishSite]
  expect(jobs.filter((job) => !publishing.includes(job) && job.permissions !== undefined)).toEqual([])
})

test('the addon is built for all platforms, and tested on all of them with all versions of Node', () => {
  const { addon } = jobsOf('packages.yml')
  const targets = addon?.strategy?.matrix.include.map(({ target }) => target)
  expect(targets?.sort()).toEqual([...manifest.napi.targets].sort())

  const { test, embedded, install, 'install-musl': musl } = jobsOf('nightly.yml')
  const matrices = [install, musl, test, embedded].map((job) => job?.strategy?.matrix)
  const tried = matrices.slice(0, 2).flatMap((matrix) => matrix?.runner)
  expect(tried).toHaveLength(targets?.length as number)
  expect(matrices.map((matrix) => matrix?.node)).toEqual(matrices.map(() => [20, 22, 24]))
})

test('publishing waits for the gate, and for all that is tested each night', () => {
  const { tests, publish } = jobsOf('release.yml')
  expect(tests?.uses).toBe('./.github/workflows/nightly.yml')
  expect(publish?.needs).toBe('tests')
  expect(jobsOf('nightly.yml').gate?.uses).toBe('./.github/workflows/ci.yml')
})

function jobsOf(name: string): {
  readonly [job in 'addon' | 'embedded' | 'gate' | 'install' | 'install-musl' | 'publish' | 'test' | 'tests']?: Job
} {
  return workflows[name]?.jobs ?? {}
}

function read(name: string): Workflow {
  return parse(readFileSync(join(FOLDER, name), 'utf8')) as Workflow
}

/** The output of the check, whether or not it passes. */
async function check(...files: readonly string[]): Promise<string> {
  const result = promisify(execFile)(process.execPath, [CHECK, ...files], { cwd: ROOT })
  const { stdout, stderr } = await result.catch((error: { stdout: string; stderr: string }) => error)
  return (stderr + stdout).trim()
}
