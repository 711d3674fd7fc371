/**
 * Puts defects into the sources one by one, and checks that the tests for their kind find each.
 *
 *     npm run defects                     all kinds: some hours
 *     npm run defects -- KIND [NAME]...   those of one kind, a file of scripts/defects/
 *     npm run defects -- --check          only checks that the text of each defect is in the sources
 *
 * A defect is a file, a text in it and the defective text, or a list of these. The sources are edited in
 * place and restored. They must be unchanged since the last commit.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import calls from './defects/calls.mjs'
import connections from './defects/connections.mjs'
import fuzz from './defects/fuzz.mjs'
import ids from './defects/ids.mjs'
import laws from './defects/laws.mjs'
import meters from './defects/meters.mjs'
import models from './defects/models.mjs'
import owed from './defects/owed.mjs'
import permits from './defects/permits.mjs'
import twins from './defects/twins.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

const SEED = /^seed \d+: \d+ violations; the first: .*$/m

const METER_TESTS = [
  '--test',
  'engine',
  '--',
  'laws::meters',
  'policy::multi_policy',
  'redis::flushes',
  'redis::operations',
]

const OWED_TESTS = ['--test', 'engine', '--', 'policy::owed', 'redis::operations']

const IDS_TESTS = ['--test', 'engine', '--', 'redis::operations', 'redis::concurrency::permits_are_twins']

/** By kind: the defects, the command that finds them, and the line of its output that is the finding. */
const KINDS = {
  laws: {
    defects: laws,
    command: () => ['cargo', 'test', '--profile', 'test-optimized', '--test', 'engine', 'units_admitted_less'],
    finding: /^seed \d+, step \d+: .*$/m,
  },
  meters: {
    defects: meters,
    command: () => ['cargo', 'test', '--profile', 'test-optimized', ...METER_TESTS],
    env: { TOLLGATE_CASES: '100' },
    finding: /^(?:Test failed: .*|test \S*units_tests::\S+ \.\.\. FAILED)$/m,
  },
  permits: {
    defects: permits,
    command: () => ['cargo', 'test', '--test', 'engine', '--', 'redis::concurrency'],
    finding: /^Test failed: .*$/m,
  },
  owed: {
    defects: owed,
    command: () => ['cargo', 'test', '--profile', 'test-optimized', ...OWED_TESTS],
    env: { TOLLGATE_CASES: '100' },
    finding: /^Test failed: .*$/m,
  },
  ids: {
    defects: ids,
    command: () => ['cargo', 'test', '--profile', 'test-optimized', ...IDS_TESTS],
    env: { TOLLGATE_CASES: '100' },
    finding: /^Test failed: .*$/m,
  },
  twins: {
    defects: twins,
    command: () => [process.execPath, 'scripts/jest.mjs', 'simulation/twins'],
    env: { TOLLGATE_SIMULATED: '300000', TOLLGATE_SEED: '7' },
    finding: /^ *scenario \d+ of .*?, seed \d+: .*$/m,
  },
  connections: {
    defects: connections,
    command: () => [process.execPath, 'scripts/simulate.mjs', '--part', 'connections', '--seeds', '500'],
    finding: SEED,
  },
  calls: {
    defects: calls,
    command: () => [process.execPath, 'scripts/simulate.mjs', '--part', 'calls', '--first', '--seeds', '100'],
    finding: SEED,
  },
  models: {
    defects: models,
    command: () => [process.execPath, 'scripts/models.mjs'],
    finding: /^(?:test \S+ \.\.\. FAILED|thread '\S+'.*panicked.*)$/m,
  },
  fuzz: {
    defects: fuzz,
    command: (name) => [process.execPath, 'scripts/fuzz.mjs', name.split(':')[0], '--replay', '--seconds', '60'],
    finding: /^(?:thread .* panicked at .*\n.*|.*: an input fails: .*)$/m,
  },
}

const [first, ...requested] = process.argv.slice(2)
if (first === '--check') {
  for (const { defects } of Object.values(KINDS)) {
    Object.values(defects).flatMap(changesOf).forEach(defective)
  }
} else if (first !== undefined && !(first in KINDS)) {
  throw new Error(`a kind is one of ${Object.keys(KINDS).join(', ')}; got ${first}`)
} else {
  const kinds = first === undefined ? Object.keys(KINDS) : [first]
  process.exitCode = kinds.map((kind) => tryDefects(kind, KINDS[kind], requested)).every(Boolean) ? 0 : 1
}

/** Returns whether all are found. */
function tryDefects(kind, { defects, ...finder }, requested) {
  if (execFileSync('git', ['status', '--porcelain', 'src', 'lua', 'ts'], { cwd: ROOT, encoding: 'utf8' }) !== '') {
    throw new Error('src, lua or ts have changes that are not committed')
  }
  const names = requested.length > 0 ? requested : Object.keys(defects)
  let missed = 0
  for (const name of names) {
    const found = findingOf(
      name,
      defects[name] ?? fail(`no defect of ${kind} is named ${JSON.stringify(name)}`),
      finder,
    )
    missed += found === undefined ? 1 : 0
    console.log(found === undefined ? `MISSED  ${name}` : `found   ${name}: ${found.trim().slice(0, 160)}`)
  }
  console.log(`${kind}: ${names.length - missed} of ${names.length} found`)
  return missed === 0
}

/** What the command prints about the sources with a defect. */
function findingOf(name, defect, { command, env, finding }) {
  const before = new Map()
  try {
    for (const change of changesOf(defect)) {
      const [file] = change
      const path = join(ROOT, file)
      before.set(path, before.get(path) ?? readFileSync(path, 'utf8'))
      writeFileSync(path, defective(change))
    }
    const [program, ...words] = command(name)
    const options = { cwd: ROOT, env: { ...process.env, ...env }, encoding: 'utf8', maxBuffer: 1 << 30 }
    const { status, stdout, stderr } = spawnSync(program, words, options)
    const found = finding.exec(`${stdout}${stderr}`)?.[0].replace('\n', ' ')
    if (status !== 0 && found === undefined) {
      throw new Error(`${name}: ${stdout}${stderr}`)
    }
    return found
  } finally {
    for (const [path, source] of before) {
      writeFileSync(path, source)
    }
  }
}

/** The changes of a defect, which is one change or a list of them. */
function changesOf(defect) {
  return typeof defect[0] === 'string' ? [defect] : defect
}

/** The content of a file with a change. */
function defective([file, text, other]) {
  const source = readFileSync(join(ROOT, file), 'utf8')
  return source.includes(text) ? source.replace(text, () => other) : fail(`${file} has no ${JSON.stringify(text)}`)
}

function fail(reason) {
  throw new Error(reason)
}
