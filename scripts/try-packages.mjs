/**
 * Installs staged packages in an empty folder, as npm does for a user of this platform, and runs
 * programs that use them. It needs only Node and npm, so it runs in any container.
 *
 *     node scripts/try-packages.mjs [--from DIR]
 *
 * --from  the folder of the staged packages; default: stage/
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual, parseArgs } from 'node:util'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const PROGRAMS = join(ROOT, '__tests__', 'package', 'programs')

/** The output of the programs, whose clock is fixed. */
const DECISIONS = {
  smooth: { status: 'allowed', remaining: 2 },
  once: 'allowed-last',
  bucket: { retryAfterMs: 1000 },
  error: 'INVALID_KEY',
}

const { values: options } = parseArgs({ options: { from: { type: 'string', default: join(ROOT, 'stage') } } })
const stage = resolve(options.from)
const temp = mkdtempSync(join(tmpdir(), 'tollgate-try-'))

try {
  const consumer = install()
  for (const program of ['plain.cjs', 'plain.mjs']) {
    cpSync(join(PROGRAMS, program), join(consumer, program))
    const output = execFileSync(process.execPath, [program], { cwd: consumer, encoding: 'utf8' })
    if (!isDeepStrictEqual(JSON.parse(output), DECISIONS)) {
      throw new Error(`${program} printed ${output}`)
    }
    console.log(`${program}: correct`)
  }
  tryCommandLine(consumer)
} catch (error) {
  console.error(`try-packages: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
} finally {
  rmSync(temp, { recursive: true, force: true })
}

/** The installed command replays a log that one request in two passes. */
function tryCommandLine(consumer) {
  const line = (second) => `192.0.2.1 - - [31/Jan/2026:10:00:0${second} +0000] "GET / HTTP/1.1" 200 1\n`
  writeFileSync(join(consumer, 'access.log'), line(1) + line(2))
  const words = ['simulate', 'access.log', '--policy', 'gcra limit=1 period=1h', '--key', 'ip', '--format', 'json']
  const program = join(consumer, 'node_modules', 'tollgate-cli', 'dist', 'cli', 'main.js')
  const output = execFileSync(process.execPath, [program, ...words], { cwd: consumer, encoding: 'utf8' })
  const [{ requests, refused }] = JSON.parse(output).policies
  if (requests !== 2 || refused !== 1) {
    throw new Error(`tollgate-cli simulate printed ${output}`)
  }
  console.log('tollgate-cli simulate: correct')
}

/** The main package and the command line are required, the others are optional, as in its published manifest. */
function install() {
  const names = readdirSync(stage)
  const files = Object.fromEntries(names.map((name) => [name, `file:${pack(name)}`]))
  const { tollgate, 'tollgate-cli': cli, ...platforms } = files
  const consumer = join(temp, 'consumer')
  mkdirSync(consumer)
  const manifest = { private: true, dependencies: { tollgate, 'tollgate-cli': cli }, optionalDependencies: platforms }
  writeFileSync(join(consumer, 'package.json'), JSON.stringify(manifest))
  npm(consumer, 'install', '--offline', '--no-audit', '--no-fund')
  const installed = readdirSync(join(consumer, 'node_modules')).filter((name) => name in files)
  console.log(
    `Node ${process.version} on ${process.platform} ${process.arch} has of ${names.length}: ${installed.join(', ')}`,
  )
  return consumer
}

function pack(name) {
  const output = npm(join(stage, name), 'pack', '--json', '--ignore-scripts', '--pack-destination', temp)
  return join(temp, JSON.parse(output)[0].filename)
}

function npm(cwd, ...args) {
  const shell = process.platform === 'win32'
  return execFileSync('npm', args, { cwd, encoding: 'utf8', shell, stdio: ['ignore', 'pipe', 'inherit'] })
}
