/**
 * Runs the tests.
 *
 *     npm test                            the checks and the quick groups, with the dev profile
 *     npm run test:full                   all groups, with the release profile and WebAssembly
 *     npm run test:full -- GROUP...       some groups; --list prints them
 *     npm run check                       only the checks
 *
 * --jobs N   the maximum of parallel steps (default: 2 for the quick groups; otherwise 1, because
 *            tests measure time)
 * --verbose  prints the output of every step immediately, and not only that of failed steps
 *
 * Each step's output is in target/test-logs/.
 */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { GROUPS, patternOf } from './test/groups.cjs'
import { runSteps } from './test/steps.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const JEST = 'node __tests__/node_modules/jest/bin/jest.js --config __tests__/jest.config.cjs'

/** Where the build of the addon has its crates, so that each is compiled once. */
const CARGO_ENV = { CARGO_BUILD_TARGET: 'host-tuple' }

const { values: options, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    full: { type: 'boolean', default: false },
    checks: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    jobs: { type: 'string' },
    verbose: { type: 'boolean', default: false },
  },
})

if (options.list) {
  printGroups()
} else {
  const groups = chosenGroups()
  const jobs = Number(options.jobs ?? (options.full ? 1 : 2))
  if (!Number.isSafeInteger(jobs) || jobs < 1) {
    throw new Error(`--jobs must be a whole number from 1, got ${options.jobs}`)
  }
  const start = performance.now()
  const steps = options.checks ? checkSteps() : options.full ? fullSteps(groups) : quickSteps(groups)
  const results = await runSteps(steps, { root: ROOT, jobs, verbose: options.verbose })
  printResults(results, (performance.now() - start) / 1000)
}

function chosenGroups() {
  const unknown = names.filter((name) => !GROUPS.some((group) => group.name === name))
  if (unknown.length > 0) {
    throw new Error(`no such group: ${unknown.join(', ')}. There are ${GROUPS.map(({ name }) => name).join(', ')}.`)
  }
  return GROUPS.filter(({ name, isQuick }) => (names.length > 0 ? names.includes(name) : options.full || isQuick))
}

/** The build, and all checks that are not tests. */
function checkSteps() {
  return [
    { name: 'build', command: 'node scripts/build.mjs --profile dev', lock: 'cargo' },
    { name: 'install', command: 'node scripts/install.mjs __tests__' },
    ...checks({ typed: ['__tests__'], crates: '' }),
  ]
}

/**
 * The quick loop, a few minutes: one build of the development profile, and each check and test
 * once.
 */
function quickSteps(groups) {
  const tests = groups.flatMap(({ tests }) => tests)
  const system = [...new Set(groups.flatMap(({ system = [] }) => system))]
  return [
    ...checkSteps(),
    ...systemSteps(system),
    {
      ...jestStep('jest', tests, ['build', 'install', ...system]),
      env: { TOLLGATE_TEST_WASM: 'off', TOLLGATE_CASES: '15', TOLLGATE_SIMULATED: '5000' },
    },
    cargoStep('test --lib'),
    { ...cargoStep('test --test engine -- --skip redis::cluster', { TOLLGATE_CASES: '10' }), needs: system },
  ]
}

/** Each group by itself, with the release profile, and with WebAssembly if a group needs it. */
function fullSteps(groups) {
  const system = [...new Set(groups.flatMap(({ system = [] }) => system))]
  const packages = [...new Set(groups.flatMap(({ packages = [] }) => packages))]
  const needsNode = groups.some(({ tests }) => tests.length > 0)
  const wasm = groups.some(({ wasm }) => wasm) ? ' --wasm' : ''
  return [
    ...(needsNode
      ? [
          { name: 'install', command: `node scripts/install.mjs ${['__tests__', ...packages].join(' ')}` },
          { name: 'build', command: `node scripts/build.mjs --profile release${wasm}`, lock: 'cargo' },
        ]
      : []),
    ...systemSteps(system),
    ...groups.flatMap((group) => stepsOf(group)),
  ]
}

function stepsOf({ name, tests, cargo = [], scripts = [], system = [], typed = [], isChecked = false }) {
  return [
    ...(isChecked ? checks({ typed: ['__tests__'], crates: ' --workspace' }) : []),
    ...typed.map(typesStep),
    ...(tests.length > 0 ? [jestStep(name, tests, ['install', 'build', ...system])] : []),
    ...cargo.map((args) => ({ ...cargoStep(args), needs: system })),
    ...scripts.map((script) => ({ name: script, command: `node scripts/${script}`, lock: 'cargo' })),
  ]
}

function systemSteps(scripts) {
  return scripts.map((script) => ({ name: script, command: `node scripts/${script}.mjs`, lock: 'apt' }))
}

function checks({ typed, crates }) {
  return [
    { name: 'lint', command: 'npm run --silent check:lint' },
    ...typed.map(typesStep),
    { name: 'generated', command: 'npm run --silent check:generated', needs: ['build'] },
    { name: 'rustfmt', command: 'cargo fmt --all --check' },
    { name: 'clippy', command: `cargo clippy --all-targets${crates} -- -D warnings`, env: CARGO_ENV, lock: 'cargo' },
    {
      name: 'clippy, engine alone',
      command: 'cargo clippy --no-default-features --lib -- -D warnings',
      env: CARGO_ENV,
      lock: 'cargo',
    },
  ]
}

function typesStep(folder) {
  return {
    name: `types of ${folder}`,
    command: `node node_modules/typescript/bin/tsc -p ${folder}/tsconfig.json`,
    needs: ['install', 'build'],
  }
}

function jestStep(name, tests, needs) {
  return { name, command: `${JEST} --maxWorkers=2 "${patternOf(tests)}"`, needs }
}

function cargoStep(args, env = {}) {
  return { name: `cargo ${args}`, command: `cargo ${args}`, env: { ...CARGO_ENV, ...env }, lock: 'cargo' }
}

function printGroups() {
  for (const { name, title, isQuick } of GROUPS) {
    console.log(`${name.padEnd(12)} ${title}${isQuick ? ' (in npm test, too)' : ''}`)
  }
}

function printResults(results, seconds) {
  console.log('\nseconds  passed  failed  step')
  for (const { step, status, seconds, tests } of results) {
    const cells = [seconds.toFixed(1).padStart(7), `${tests.passed}`.padStart(6), `${tests.failed}`.padStart(6)]
    console.log(`${cells.join('  ')}  ${step.name}${status === 'passed' ? '' : `: ${status}`}`)
  }
  const broken = results.filter(({ status }) => status !== 'passed')
  const sum = (key) => results.reduce((total, { tests }) => total + tests[key], 0)
  // A failed step without a failed test, such as a check, counts as one.
  const failed = sum('failed') + broken.filter(({ tests }) => tests.failed === 0).length
  console.log(`\n${(seconds / 60).toFixed(1)} minutes`)
  console.log(`${sum('passed')} passed, ${failed} failed`)
  const others = GROUPS.filter(({ isQuick }) => !isQuick).map(({ name }) => name)
  if (!options.full) {
    console.log(
      `Not run here: ${others.join(', ')}; operations on WebAssembly; most cases of the property tests. ` +
        'Run them with: npm run test:full',
    )
  }
  process.exitCode = broken.length > 0 ? 1 : 0
}
