/**
 * Runs the tests of the Redis half against every available version of Redis and Valkey.
 *
 *     npm run test:servers -- [--list] [--only NAME]...
 *
 * --list  prints the servers, and runs nothing
 * --only  only this server; may be given several times
 *
 * The servers are kept in node_modules/.cache/tollgate-servers, or in $TOLLGATE_SERVERS. The script
 * fails if a test fails, or if a listed server cannot be obtained: an untested version must not
 * look like a passed one. See docs/servers.md.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Archives } from './archives.mjs'
import { jestTests, logged, print } from './counted-tests.mjs'
import { SERVERS } from './servers/list.mjs'
import { ask, obtain } from './servers/obtain.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const CACHE = resolve(process.env.TOLLGATE_SERVERS || join(ROOT, 'node_modules', '.cache', 'tollgate-servers'))
const HEAD = ['server', 'reports', 'from', 'TLS', 'engine tests', 'Jest tests', 'seconds', 'result']

try {
  await main()
} catch (error) {
  console.error(`servers: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}

async function main() {
  const { values: options } = parseArgs({
    options: { list: { type: 'boolean', default: false }, only: { type: 'string', multiple: true } },
  })
  const chosen = choose(options.only)
  if (options.list) {
    print(
      ['server', 'version', 'from'],
      chosen.map(({ name, version, archive }) => [name, version, archive.title]),
    )
    return
  }
  const logs = join(CACHE, 'logs')
  mkdirSync(logs, { recursive: true })
  const archives = new Archives(CACHE)
  const rows = []
  const problems = []
  for (const server of chosen) {
    const { row, problem } = await examine(server, archives, logs)
    rows.push(row)
    if (problem !== undefined) {
      problems.push(`${server.name}: ${problem}`)
    }
    // Each result is printed immediately, because a run takes long.
    console.log(row.join('  '))
  }
  console.log('')
  print(HEAD, rows)
  if (problems.length > 0) {
    throw new Error(`${problems.length} of ${chosen.length} failed\n${problems.join('\n')}\nlogs: ${logs}`)
  }
}

function choose(names) {
  const unknown = (names ?? []).filter((name) => !SERVERS.some((server) => server.name === name))
  if (unknown.length > 0) {
    throw new Error(`no server is named ${unknown.join(', ')}; --list names them`)
  }
  return names === undefined ? SERVERS : SERVERS.filter(({ name }) => names.includes(name))
}

/** One server's row of the table, and its problem, if any. */
async function examine(server, archives, logs) {
  const begun = performance.now()
  const row = (identity, engine, jest, result) => {
    const seconds = ((performance.now() - begun) / 1000).toFixed(0)
    const tls = reported === undefined ? '-' : reported.hasTls ? 'its own' : "Node's"
    return [server.name, identity, server.archive.title, tls, engine, jest, seconds, result]
  }
  let path
  let reported
  try {
    path = obtain(server, archives, CACHE)
    reported = await ask(path)
  } catch (error) {
    return { row: row('-', '-', '-', 'NOT OBTAINED'), problem: `not obtained: ${error.message}` }
  }
  const identity = `${reported.product} ${reported.version}`
  if (reported.version !== server.version) {
    return { row: row(identity, '-', '-', 'WRONG'), problem: `reports ${identity}, but ${server.version} is listed` }
  }
  const env = { ...process.env, TOLLGATE_REDIS_SERVER: path, TOLLGATE_REDIS_TLS: reported.hasTls ? '' : 'none' }
  const engine = await engineTests(env, join(logs, `${server.name}-engine.log`))
  const jest = await jestTests(['redis'], env, join(logs, `${server.name}-jest`))
  const passed = engine.passed && jest.passed
  return {
    row: row(identity, engine.count, jest.count, passed ? 'pass' : 'FAIL'),
    problem: passed ? undefined : `tests failed (engine ${engine.count}, Jest ${jest.count})`,
  }
}

/** A filter that matches no test succeeds, too, so zero tests count as a failure. */
async function engineTests(env, log) {
  const status = await logged('cargo', ['test', '--test', 'engine', 'redis'], env, log)
  const result = /^test result: .*? (\d+) passed; (\d+) failed/m.exec(readFileSync(log, 'utf8'))
  const [passed, failed] = result === null ? [0, 0] : [Number(result[1]), Number(result[2])]
  return { passed: status === 0 && passed > 0, count: `${passed} of ${passed + failed}` }
}
