/**
 * Runs the matching Jest tests. Before that, it installs and builds what they need, if it is
 * missing or stale.
 *
 *     npm run jest -- [--quick] [PATTERN]... [OPTION]...
 *
 * Patterns and options are those of Jest: `npm run jest -- calls/flushes --verbose`. With --quick,
 * or without a pattern, it runs only the matching tests of `npm test`. Like `npm test`, it runs
 * those without WebAssembly, unless other tests match, too. A pattern with `deep` includes the tests of
 * `npm run test:deep`.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from './build.mjs'
import { install } from './install.mjs'
import { GROUPS, groupOf, patternOf } from './test/groups.cjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const JEST = join(ROOT, '__tests__', 'node_modules', 'jest', 'bin', 'jest.js')
const CONFIG = ['--config', join(ROOT, '__tests__', 'jest.config.cjs')]

const given = process.argv.slice(2)
const args = given.filter((word) => word !== '--quick')
const isQuick = args.length < given.length || args.every((word) => word.startsWith('-'))
if (isQuick) {
  const others = GROUPS.filter((group) => !group.isQuick)
  args.push('--testPathIgnorePatterns', '/node_modules/', ...others.map(({ tests }) => patternOf(tests)))
}

if (args.some((word) => word.includes('deep'))) {
  process.env.TOLLGATE_DEEP = 'on'
}
install('__tests__')
const listed = execFileSync(process.execPath, [JEST, ...CONFIG, '--listTests', ...args], {
  cwd: ROOT,
  encoding: 'utf8',
})
const files = listed.split('\n').filter(Boolean)
if (files.length === 0) {
  console.log('No tests match')
  process.exit(isQuick ? 0 : 1)
}
const groups = new Set(files.map((file) => groupOf(nameOf(file))))
for (const { packages = [], system = [] } of groups) {
  install(...packages)
  for (const script of system) {
    execFileSync(process.execPath, [join(ROOT, 'scripts', `${script}.mjs`)], { stdio: 'inherit' })
  }
}
const isAllQuick = [...groups].every(({ isQuick }) => isQuick)
const needsWasm = [...groups].some(({ wasm }) => wasm)
if (isAllQuick && needsWasm) {
  console.log('Without operations on WebAssembly, which npm run test:full -- core runs, too')
}
build({ wasm: !isAllQuick && needsWasm })
const env = { ...process.env, ...(isAllQuick ? { TOLLGATE_TEST_WASM: 'off' } : {}) }
const { status } = spawnSync(process.execPath, [JEST, ...CONFIG, ...args], { cwd: ROOT, stdio: 'inherit', env })
process.exitCode = status ?? 1

/** The path of a test below __tests__/. */
function nameOf(file) {
  return relative(join(ROOT, '__tests__'), file).replaceAll('\\', '/')
}
