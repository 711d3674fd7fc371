/**
 * Runs tests with an instrumented engine, above all those that start and end threads: see
 * docs/design/testing.md.
 *
 *     npm run sanitize -- address [PATTERN]...   AddressSanitizer and LeakSanitizer
 *     npm run sanitize -- thread [PATTERN]...    ThreadSanitizer
 *
 * Without a pattern of Jest, it runs the tests below and the engine's own tests.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from './build.mjs'
import { install } from './install.mjs'
import { patternOf } from './test/groups.cjs'
import { countTests } from './test/steps.mjs'
import { withSources } from './wasm/toolchain.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const TARGET = 'x86_64-unknown-linux-gnu'

/** Tests that start and terminate workers, end processes, or close in the middle of calls. */
const TESTS = [
  'fallback/options',
  'memory/{limiters,store,workers}',
  'redis/store',
  'redis/connection/{inline-io,lifetime}',
]

/** Not the tests that measure time: instrumented programs are slow. */
const UNTIMED =
  '^(?!.*(waits no longer than the deadline|keep the law and get the promised units|exits when its calls|a call wakes no other thread))'

/**
 * By kind: the runtime of clang, and the filters of the engine's unit tests and of its other tests.
 */
const KINDS = {
  address: { name: 'asan', units: [], tests: ['--skip', 'redis::'] },
  thread: { name: 'tsan', units: ['memory::', 'inline_io::', 'calendar::'], tests: ['memory::', 'redis::connection'] },
}

const [kind, ...patterns] = process.argv.slice(2)
if (!Object.hasOwn(KINDS, kind)) {
  throw new Error('npm run sanitize -- address or thread')
}
const { name, units, tests } = KINDS[kind]
const runtime = findRuntime(`libclang_rt.${name}-x86_64.so`)
const folder = join(ROOT, 'target', 'sanitize', kind)
const logs = join(folder, 'logs')
rmSync(logs, { recursive: true, force: true })
mkdirSync(logs, { recursive: true })

/** The environment of an instrumented program. */
const env = {
  ...process.env,
  ASAN_OPTIONS: `log_path=${join(logs, 'report')}:detect_leaks=1:external_symbolizer_path=${uninstrumented('addr2line')}`,
  // Node leaks at its end: `reportsOf` selects the leaks of the addon.
  LSAN_OPTIONS: 'exitcode=0',
  // Node is not instrumented: nothing is known of its locks.
  TSAN_OPTIONS: [
    `log_path=${join(logs, 'report')}:exitcode=0:ignore_noninstrumented_modules=1`,
    `suppressions=${join(ROOT, 'scripts', 'sanitize', 'thread.supp')}`,
    `external_symbolizer_path=${uninstrumented('addr2line')}`,
  ].join(':'),
  TOLLGATE_CASES: '10',
}

const failed = [
  ['the tests of Node', () => testNode()],
  ...(patterns.length > 0
    ? []
    : [
        ["the engine's unit tests", () => testEngine(['--lib'], units)],
        ["the engine's tests", () => testEngine(['--test', 'engine'], tests)],
      ]),
].filter(([, run]) => !run())
const reports = readdirSync(logs).flatMap((file) => reportsOf(readFileSync(join(logs, file), 'utf8')))
for (const report of reports) {
  console.log(`\n${report}`)
}
console.log(`\nFailed: ${failed.length === 0 ? 'none' : failed.map(([title]) => title).join(', ')}`)
console.log(`Reports: ${reports.length}, of ${readdirSync(logs).length} processes (target/sanitize/${kind}/logs)`)
process.exitCode = failed.length > 0 || reports.length > 0 ? 1 : 0

function testNode() {
  install('__tests__')
  build({})
  cargo(['build', '--lib'])
  const addon = join(folder, 'tollgate.node')
  copyFileSync(join(folder, TARGET, 'test-optimized', 'libtollgate.so'), addon)
  const jest = join(ROOT, '__tests__', 'node_modules', 'jest', 'bin', 'jest.js')
  const words = [
    '--config',
    join(ROOT, '__tests__', 'jest.config.cjs'),
    '--runInBand',
    '--testTimeout=300000',
    `--testNamePattern=${UNTIMED}`,
  ]
  const chosen = patterns.length > 0 ? patterns : [patternOf(TESTS)]
  return passes(process.execPath, [jest, ...words, ...chosen], {
    NODE_OPTIONS: `--require=${join(ROOT, 'scripts', 'sanitize', 'addon.cjs')}`,
    TOLLGATE_SANITIZED: addon,
    TOLLGATE_TEST_WASM: 'off',
  })
}

/** The engine's tests, as programs. */
function testEngine(which, filters) {
  const out = cargo(['test', '--no-run', '--message-format=json-render-diagnostics', ...which])
  const messages = out.split('\n').filter((line) => line.startsWith('{'))
  const program = messages.map((line) => JSON.parse(line).executable).findLast(Boolean)
  return passes(program, filters, {})
}

/** Runs cargo with instrumentation, and returns its output. */
function cargo([command, ...args]) {
  // Without an instrumented standard library, ThreadSanitizer would not see its locks.
  const std = kind === 'thread' ? withSources(join(cache(), 'tollgate-wasm')).env : undefined
  const common = ['--locked', '--profile', 'test-optimized', '--target', TARGET, '--target-dir', folder]
  return execFileSync('cargo', [command, ...common, ...(std ? ['-Zbuild-std=std,panic_unwind'] : []), ...args], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 30,
    env: {
      ...process.env,
      ...std,
      RUSTFLAGS: `-Zsanitizer=${kind}`,
      RUSTC_WORKSPACE_WRAPPER: linkingRuntime(),
      // These options are unstable, and a released compiler accepts them only with this variable.
      RUSTC_BOOTSTRAP: '1',
      CARGO_PROFILE_TEST_OPTIMIZED_DEBUG: 'line-tables-only',
    },
  })
}

/** A program that runs the compiler, and links clang's runtime: Debian's compiler has none. */
function linkingRuntime() {
  const script = join(folder, 'rustc')
  const link = `-Zexternal-clangrt -Clink-arg=${runtime} -Clink-arg=-Wl,-rpath,${dirname(runtime)}`
  writeFileSync(script, `#!/bin/sh\ncase "$*" in *"--target ${TARGET}"*) exec "$@" ${link} ;; *) exec "$@" ;; esac\n`, {
    mode: 0o755,
  })
  return script
}

function cache() {
  return process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
}

/** A program that runs another without the runtime. */
function uninstrumented(program) {
  const script = join(folder, program)
  writeFileSync(script, `#!/bin/sh\nunset LD_PRELOAD\nexec ${program} "$@"\n`, { mode: 0o755 })
  return script
}

/**
 * Runs tests with the runtime, and prints their output. Some must have run: the exit code of a
 * runtime that cannot start is that of leaks, which is 0 here.
 */
function passes(program, args, own) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: ROOT,
    env: { ...env, LD_PRELOAD: runtime, TOLLGATE_REDIS_SERVER: uninstrumented('redis-server'), ...own },
    encoding: 'utf8',
    maxBuffer: 1 << 30,
  })
  console.log(`${stdout}${stderr}`)
  const { passed, failed } = countTests(`${stdout}\n${stderr}`)
  return status === 0 && failed === 0 && passed > 0
}

/** The shared library of clang's runtime. */
function findRuntime(file) {
  const versions = [22, 21, 20, 19, 18]
  const found = versions
    .map((version) => `/usr/lib/llvm-${version}/lib/clang/${version}/lib/linux/${file}`)
    .find((path) => existsSync(path))
  if (found === undefined) {
    throw new Error(`${file} is missing. Debian: apt-get install libclang-rt-19-dev`)
  }
  return found
}

/** The reports of a log: all errors and races, and the leaks of memory that the addon allocated. */
function reportsOf(log) {
  const leak = /^(?:Direct|Indirect) leak of /
  return log
    .split(/\n\n+/)
    .filter((part) =>
      leak.test(part) ? /^ +#1 .*tollgate/m.test(part) : /ERROR: AddressSanitizer|WARNING: Thread/.test(part),
    )
}
