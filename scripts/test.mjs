/**
 * Runs the tests of the gate. Each draws the same cases every time; `npm run test:deep` searches.
 *
 *     npm test                            the checks and the quick groups, with the dev profile
 *     npm run test:full                   all that has not passed with these files, such as in
 *                                         `npm test`; the other groups with the release profile
 *     npm run test:full -- GROUP...       some groups, whole; --list prints them
 *     npm run check                       only the checks
 *
 * --jobs N   the maximum of parallel steps (default: 2)
 * --verbose  prints the output of every step immediately, and not only that of failed steps
 *
 * Each step's output is in target/test-logs/.
 */
import { parseArgs } from 'node:util'
import { ROOT } from './content.mjs'
import { ENGINE, GROUPS, patternOf } from './test/groups.cjs'
import { runSteps, unchangedSteps } from './test/steps.mjs'

const JEST = 'node __tests__/node_modules/jest/bin/jest.js --config __tests__/jest.config.cjs'

/** Where the build of the addon has its crates, so that each is compiled once. */
const CARGO_ENV = { CARGO_BUILD_TARGET: 'host-tuple' }

/** Enough cases of the property tests for a gate; the search draws a hundred times as many. */
const QUICK_CASES = { TOLLGATE_CASES: '10' }

const { values: options, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    full: { type: 'boolean', default: false },
    checks: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '2' },
    verbose: { type: 'boolean', default: false },
  },
})

if (options.list) {
  for (const { name, title, isQuick } of GROUPS) {
    console.log(`${name.padEnd(12)} ${title}${isQuick ? ' (in npm test, too)' : ''}`)
  }
} else {
  await main()
}

async function main() {
  const jobs = Number(options.jobs)
  if (!Number.isSafeInteger(jobs) || jobs < 1) {
    throw new Error(`--jobs must be a whole number from 1, got ${options.jobs}`)
  }
  const unknown = names.filter((name) => !GROUPS.some((group) => group.name === name))
  if (unknown.length > 0) {
    throw new Error(`no such group: ${unknown.join(', ')}. There are ${GROUPS.map(({ name }) => name).join(', ')}.`)
  }
  const start = performance.now()
  const results = []
  // The two parts have addons of different profiles in the same place.
  for (const steps of chosenParts()) {
    const unchanged = options.full && names.length === 0 ? unchangedSteps(steps) : []
    const run = neededSteps(steps, unchanged)
    results.push(
      ...unchanged.map((step) => ({ step, status: 'unchanged', seconds: 0, tests: { passed: 0, failed: 0 } })),
    )
    results.push(...(await runSteps(run, { root: ROOT, jobs, verbose: options.verbose })))
  }
  printResults(results, (performance.now() - start) / 1000)
}

function chosenParts() {
  if (options.checks) {
    return [checkSteps()]
  }
  if (names.length > 0) {
    return [groupSteps(GROUPS.filter(({ name }) => names.includes(name)))]
  }
  return [quickSteps(), ...(options.full ? [groupSteps(GROUPS.filter(({ isQuick }) => !isQuick))] : [])]
}

/** The steps without the unchanged ones, and without those that only these need. */
function neededSteps(steps, unchanged) {
  const rest = steps.filter((step) => !unchanged.includes(step))
  const needed = new Set(rest.flatMap((step) => (step.isPreparation ? [] : [step.name, ...(step.needs ?? [])])))
  for (const step of [...rest].reverse().filter(({ name }) => needed.has(name))) {
    for (const name of step.needs ?? []) {
      needed.add(name)
    }
  }
  return rest.filter(({ name }) => needed.has(name))
}

/** The build, and all checks that are not tests. */
function checkSteps() {
  return [
    { name: 'build', command: 'node scripts/build.mjs --profile dev', lock: 'cargo', isPreparation: true },
    { name: 'install', command: 'node scripts/install.mjs __tests__', lock: 'npm', isPreparation: true },
    { name: 'lint', command: 'npm run --silent check:lint', reads: 'tree' },
    typesStep('__tests__'),
    { name: 'generated', command: 'npm run --silent check:generated', needs: ['build'], reads: 'tree' },
    { name: 'rustfmt', command: 'cargo fmt --all --check', reads: 'tree' },
    clippyStep('clippy', '--all-targets'),
    clippyStep('clippy, engine alone', '--no-default-features --lib'),
  ]
}

/**
 * The quick loop, a few minutes: one build of the development profile, and each check and test
 * once.
 */
function quickSteps() {
  const groups = GROUPS.filter(({ isQuick }) => isQuick)
  const tests = groups.flatMap(({ tests }) => tests)
  const reads = [...ENGINE, 'tests/engine']
  return [
    ...checkSteps(),
    ...systemSteps(groups),
    {
      ...jestStep('jest', tests, ['build', 'install', ...systemOf(groups)]),
      env: { TOLLGATE_TEST_WASM: 'off', TOLLGATE_CASES: '15', TOLLGATE_SIMULATED: '5000' },
    },
    { ...cargoStep('test --lib'), reads },
    { ...cargoStep('test --test engine -- --skip redis::cluster', QUICK_CASES), needs: systemOf(groups), reads },
  ]
}

/** Each group by itself, with the release profile, and with WebAssembly if a group needs it. */
function groupSteps(groups) {
  const packages = [...new Set(groups.flatMap(({ packages = [] }) => packages))]
  const wasm = groups.some(({ wasm }) => wasm) ? ' --wasm' : ''
  const build = `node scripts/build.mjs --profile release${wasm}`
  return [
    {
      name: 'install',
      command: `node scripts/install.mjs ${['__tests__', ...packages].join(' ')}`,
      lock: 'npm',
      isPreparation: true,
    },
    { name: 'build', command: build, lock: 'cargo', isPreparation: true },
    ...systemSteps(groups),
    ...groups.flatMap(stepsOf),
  ]
}

function stepsOf(group) {
  const { name, tests, onWasm = [], cargo = [], scripts = [], system = [], typed = [], wasm = false } = group
  const { reads, isRecorded } = group
  const ofTests = cargo.length + scripts.length === 0 && reads !== undefined ? { reads, isRecorded } : {}
  const built = ['install', 'build']
  return [
    ...typed.map(typesStep),
    ...(tests.length > 0 ? [{ ...jestStep(name, tests, [...built, ...system]), ...ofTests }] : []),
    ...(onWasm.length > 0
      ? [
          {
            ...jestStep(`${name}, operations`, onWasm, [...built, ...system]),
            env: { TOLLGATE_TEST_WASM: 'only', TOLLGATE_CASES: '15' },
          },
        ]
      : []),
    ...cargo.map((args) => ({ ...cargoStep(args, QUICK_CASES), needs: system, reads, isRecorded })),
    ...scripts.map((script) => ({
      name: script.replace(/^scripts\//, ''),
      command: `node ${script}`,
      needs: [...system, ...(wasm ? ['build'] : [])],
      lock: 'cargo',
      reads,
      isRecorded,
    })),
  ]
}

function systemOf(groups) {
  return [...new Set(groups.flatMap(({ system = [] }) => system))]
}

function systemSteps(groups) {
  return systemOf(groups).map((script) => ({
    name: script,
    command: `node scripts/${script}.mjs`,
    lock: 'apt',
    isPreparation: true,
  }))
}

function clippyStep(name, args) {
  const command = `cargo clippy ${args} -- -D warnings`
  return { name, command, env: CARGO_ENV, lock: 'cargo', reads: [...ENGINE, 'tests/engine', 'tests/benches'] }
}

function typesStep(folder) {
  return {
    name: `types of ${folder}`,
    command: `node node_modules/typescript/bin/tsc -p ${folder}/tsconfig.json`,
    needs: ['install', 'build'],
    reads: 'tree',
  }
}

function jestStep(name, tests, needs) {
  return { name, command: `${JEST} --maxWorkers=2 "${patternOf(tests)}"`, needs, lock: 'jest', reads: 'tree' }
}

function cargoStep(args, env = {}) {
  return { name: `cargo ${args}`, command: `cargo ${args}`, env: { ...CARGO_ENV, ...env }, lock: 'cargo' }
}

function printResults(results, seconds) {
  console.log('\nseconds  passed  failed  step')
  for (const { step, status, seconds, tests } of results) {
    const cells = [seconds.toFixed(1).padStart(7), `${tests.passed}`.padStart(6), `${tests.failed}`.padStart(6)]
    const remark = { passed: '', unchanged: ': passed before, and has not changed' }[status] ?? `: ${status}`
    console.log(`${cells.join('  ')}  ${step.name}${remark}`)
  }
  const broken = results.filter(({ status }) => status !== 'passed' && status !== 'unchanged')
  const sum = (key) => results.reduce((total, { tests }) => total + tests[key], 0)
  // A failed step without a failed test, such as a check, counts as one.
  const failed = sum('failed') + broken.filter(({ tests }) => tests.failed === 0).length
  console.log(`\n${(seconds / 60).toFixed(1)} minutes`)
  console.log(`${sum('passed')} passed, ${failed} failed`)
  if (!options.full && !options.checks) {
    const others = GROUPS.filter(({ isQuick }) => !isQuick).map(({ name }) => name)
    console.log(`Not run here: ${others.join(', ')}, which npm run test:full runs, and the search, npm run test:deep`)
  }
  process.exitCode = broken.length > 0 ? 1 : 0
}
