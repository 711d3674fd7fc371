/**
 * Runs the groups of tests with another version of Node.js, or for another platform.
 *
 *     npm run test:platforms -- [--list] [--cargo] [PLATFORM]... [GROUP]...
 *
 * --list   prints the platforms and the groups, and runs nothing
 * --cargo  on a platform that this machine is not: also runs the unit tests of the engine there
 *
 * Without a platform, it runs `node-22` and `node-24`; without a group, all that use Node.js. On
 * `musl` and `arm64`, those are `embedded` and `core`.
 *
 * Each version of Node.js comes from npm or PyPI, and is put first in PATH. For `musl` and `arm64`,
 * the addon is built and the packages of npm are installed for that platform, and all programs run
 * there: scripts/platforms/enter.sh. Only the servers remain those of this machine. See
 * docs/platforms.md.
 *
 * The archives and logs are in ~/.cache/tollgate-platforms, or in $TOLLGATE_PLATFORMS.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Archives } from './archives.mjs'
import { build } from './build.mjs'
import { jestTests, logged, print } from './counted-tests.mjs'
import { install } from './install.mjs'
import { buildAddon, crossCompiler } from './platforms/addon.mjs'
import { PLATFORMS } from './platforms/list.mjs'
import { GROUPS, patternOf } from './test/groups.cjs'
import { countTests } from './test/steps.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
/** Not in the repository, because its changes on other platforms are stored here. */
const CACHE = resolve(
  process.env.TOLLGATE_PLATFORMS || join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'tollgate-platforms'),
)
const LOGS = join(CACHE, 'logs')
const HEAD = ['platform', 'Node.js', 'tests', 'passed', 'seconds', 'result']

/** The groups whose tests use Node.js. */
const USABLE = GROUPS.filter(({ tests }) => tests.length > 0)

/** What a foreign platform runs by default. Others start browsers or other runtimes. */
const CORE = ['embedded', 'core']

try {
  await main()
} catch (error) {
  console.error(`platforms: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}

async function main() {
  const { values: options, positionals: names } = parseArgs({
    allowPositionals: true,
    options: { list: { type: 'boolean', default: false }, cargo: { type: 'boolean', default: false } },
  })
  const platforms = PLATFORMS.filter(({ name }) => names.includes(name))
  const groups = USABLE.filter(({ name }) => names.includes(name))
  const unknown = names.filter((name) => ![...platforms, ...groups].some((one) => one.name === name))
  if (unknown.length > 0) {
    throw new Error(`neither a platform nor a group with Node.js: ${unknown.join(', ')}; --list names them`)
  }
  if (options.list) {
    print(
      ['platform', 'Node.js', 'from'],
      PLATFORMS.map(({ name, version, archives }) => [name, version, archives[0].title]),
    )
    console.log(`\ngroups: ${USABLE.map(({ name }) => name).join(' ')}`)
    return
  }
  mkdirSync(LOGS, { recursive: true })
  const chosen =
    platforms.length > 0 ? platforms : PLATFORMS.filter(({ name }) => ['node-22', 'node-24'].includes(name))
  const rows = []
  for (const platform of chosen) {
    const own = groups.length > 0 ? groups : USABLE.filter(({ name }) => !platform.foreign || CORE.includes(name))
    rows.push(...(await testsOn(platform, own, options.cargo)))
  }
  console.log('')
  print(HEAD, rows)
  const failed = rows.filter((row) => row.at(-1) !== 'pass')
  if (failed.length > 0) {
    throw new Error(`${failed.length} of ${rows.length} failed; logs: ${LOGS}`)
  }
}

/** The rows of a platform's groups. */
async function testsOn(platform, groups, withCargo) {
  const archives = new Archives(CACHE)
  const folder = join(CACHE, platform.name)
  remove(folder)
  for (const archive of platform.archives) {
    archives.unpack(archive, join(folder, 'archives'))
  }
  const node = join(folder, 'archives', platform.node)
  chmodSync(node, 0o755)
  const packages = ['__tests__', ...groups.flatMap(({ packages = [] }) => packages)]
  install(...packages)
  build({ profile: 'release', wasm: true })
  for (const script of new Set(groups.flatMap(({ system = [] }) => system))) {
    execFileSync(process.execPath, [join(ROOT, 'scripts', `${script}.mjs`)], { stdio: 'inherit' })
  }
  const compiler = platform.foreign && crossCompiler(platform.foreign.target, archives, CACHE)
  const enter = platform.foreign === undefined ? [] : enterForeign(platform, folder, packages, compiler)
  const env = { ...process.env, PATH: `${dirname(node)}:${process.env.PATH}` }
  requireVersion(platform, [...enter, node], env)

  const rows = []
  const report = (title, { passed, count }, begun) => {
    const seconds = ((performance.now() - begun) / 1000).toFixed(0)
    rows.push([platform.name, platform.version, title, count, seconds, passed ? 'pass' : 'FAIL'])
    // Each result is printed immediately, because a run takes long.
    console.log(rows.at(-1).join('  '))
  }
  const timeout = platform.foreign?.timeout
  for (const { name, tests } of groups) {
    const args = ['--maxWorkers=2', ...(timeout === undefined ? [] : [`--testTimeout=${timeout}`]), patternOf(tests)]
    const begun = performance.now()
    report(name, await jestTests(args, env, join(LOGS, `${platform.name}-${name}`), [...enter, node]), begun)
  }
  if (withCargo && platform.foreign !== undefined) {
    const begun = performance.now()
    report('cargo test --lib', await engineTests(platform, enter, compiler), begun)
  }
  return rows
}

/** Removes a folder, even if it has one that nobody but root may read: overlays create these. */
function remove(folder) {
  if (existsSync(folder)) {
    execFileSync('chmod', ['-R', 'u+rwX', folder])
    rmSync(folder, { recursive: true })
  }
}

/** Prepares a foreign platform, and returns the command that enters it. */
function enterForeign({ name, foreign }, folder, packages, compiler) {
  const changes = join(folder, 'changes')
  const script = join(ROOT, 'scripts', 'platforms', 'enter.sh')
  const enter = ['unshare', '--map-root-user', '--mount', script, name, join(folder, 'archives'), changes]
  const { cpu, libc } = foreign.npm
  // Scripts of packages would run with this machine's Node.js.
  const env = { ...process.env, npm_config_cpu: cpu, npm_config_libc: libc, npm_config_ignore_scripts: 'true' }
  const [command, ...args] = [
    ...enter,
    'sh',
    '-c',
    `npm ci --no-audit --no-fund && node scripts/install.mjs "$@"`,
    'sh',
  ]
  execFileSync(command, [...args, ...packages], { cwd: ROOT, env, stdio: 'inherit' })
  buildAddon(foreign.target, compiler, join(changes, 'upper'))
  return enter
}

/** A test must not pass with another Node.js than it says. */
function requireVersion({ version }, [command, ...args], env) {
  const program =
    "const { glibcVersionRuntime } = process.report.getReport().header; console.log(process.versions.node, process.arch, glibcVersionRuntime ? 'glibc' : 'musl')"
  const { status, stdout, stderr } = spawnSync(command, [...args, '-e', program], { cwd: ROOT, env, encoding: 'utf8' })
  if (status !== 0 || stdout.trim() !== version) {
    throw new Error(`expected Node.js ${version}, got ${stdout}${stderr}`)
  }
}

/** The unit tests of the engine, compiled here and run there. */
async function engineTests({ name, foreign }, [command, ...args], { env, args: flags }) {
  const log = join(LOGS, `${name}-cargo.log`)
  const words = ['test', '--lib', '--target', foreign.target, '--target-dir', 'target/platforms', ...flags]
  const status = await logged(command, [...args, 'cargo-zigbuild', ...words], env, log)
  const { passed, failed } = countTests(readFileSync(log, 'utf8'))
  return { passed: status === 0 && passed > 0, count: `${passed} of ${passed + failed}` }
}
