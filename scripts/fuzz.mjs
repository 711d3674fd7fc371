/**
 * Fuzzes the decoders and the engine: see tests/fuzz/README.md.
 *
 *     npm run fuzz -- TARGET --seconds N     one target; what it finds stays in its corpus
 *     npm run fuzz -- --list                 the targets
 *     npm run fuzz -- --replay [--seconds N] every target over its corpus, and then for N seconds
 *     npm run fuzz -- TARGET FILE            one input, such as one that failed
 *     npm run fuzz -- --minimize [TARGET]    drops the inputs of a corpus that reach nothing of their own
 *     npm run fuzz -- --checks               format, lint and types of tests/fuzz/
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { build } from './build.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const FOLDER = join(ROOT, 'tests', 'fuzz')
const WORK = join(ROOT, 'target', 'fuzz')
const NODE_TARGETS = join(FOLDER, 'node', 'targets')

/** The flags with which cargo-fuzz instruments code. */
const RUST_FLAGS = [
  '-Cpasses=sancov-module',
  ...['level=4', 'inline-8bit-counters', 'pc-table', 'trace-compares'].map(
    (option) => `-Cllvm-args=-sanitizer-coverage-${option}`,
  ),
  ...['--cfg', 'fuzzing', '-Ccodegen-units=1'],
]

/** The bytes of the longest input that libFuzzer makes. */
const MAX_BYTES = 1_000

const manifest = readFileSync(join(FOLDER, 'Cargo.toml'), 'utf8')
const engineTargets = [...manifest.matchAll(/^\[\[bin\]\]\nname = "(.*)"/gm)].map(([, name]) => name)
const nodeTargets = readdirSync(NODE_TARGETS).map((file) => file.replace(/\.ts$/, ''))
const targets = [...engineTargets, ...nodeTargets]

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string' },
    list: { type: 'boolean', default: false },
    replay: { type: 'boolean', default: false },
    minimize: { type: 'boolean', default: false },
    checks: { type: 'boolean', default: false },
  },
})
const [name, input] = positionals
if (name !== undefined && !targets.includes(name)) {
  throw new Error(`no such target: ${name}. There are ${targets.join(', ')}.`)
}
if (options.list) {
  console.log(targets.join('\n'))
} else if (options.checks) {
  for (const words of [
    ['fmt', '--check'],
    ['clippy', '--release', '--locked', '--all-targets', '--', '-D', 'warnings'],
  ]) {
    run('cargo', words, { cwd: FOLDER, env: { ...process.env, CARGO_TARGET_DIR: WORK } })
  }
  run(process.execPath, [join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', join(FOLDER, 'node')])
} else {
  const chosen = name === undefined ? targets : [name]
  if (name === undefined && !options.replay && !options.minimize) {
    throw new Error(`name a target: ${targets.join(', ')}`)
  }
  prepare(chosen)
  // One target of each kind at a time: most machines have two cores.
  const kinds = [engineTargets, nodeTargets].map((kind) => chosen.filter((target) => kind.includes(target)))
  const failed = (await Promise.all(kinds.map(failures))).flat()
  if (failed.length > 0) {
    throw new Error(`failed: ${failed.join(', ')}`)
  }
}

/** Builds what the targets run. */
function prepare(chosen) {
  const engine = chosen.some((target) => engineTargets.includes(target))
  build({ wasm: engine })
  if (engine) {
    cargoBuild(chosen.filter((target) => engineTargets.includes(target)))
  }
}

/** Builds the targets of the engine. With a target triple, build scripts are not instrumented. */
function cargoBuild(chosen) {
  const words = ['build', '--release', '--locked', '--quiet', '--target', host()]
  const env = { ...process.env, CARGO_TARGET_DIR: WORK, CARGO_ENCODED_RUSTFLAGS: RUST_FLAGS.join('\x1f') }
  run('cargo', [...words, ...chosen.flatMap((target) => ['--bin', target])], { cwd: FOLDER, env })
}

function host() {
  return /^host: (.*)$/m.exec(execFileSync('rustc', ['-vV'], { encoding: 'utf8' }))[1]
}

/** Runs targets one after the other, and returns those that found something. */
async function failures(kind) {
  const failed = []
  for (const target of kind) {
    if (!(await fuzz(target))) {
      failed.push(target)
    }
  }
  return failed
}

/** Runs a target; whether it found nothing. */
async function fuzz(target) {
  const isEngine = engineTargets.includes(target)
  const seconds = options.seconds ?? (options.replay || options.minimize ? '0' : '60')
  if (!isEngine) {
    const seed = options.replay ? ['--seed', '1'] : []
    const words = [join(FOLDER, 'node', 'fuzz.mjs'), target, '--seconds', seconds, ...seed]
    return succeeds(process.execPath, [
      ...words,
      ...(input === undefined ? [] : ['--input', resolve(input)]),
      ...(options.minimize || !options.replay ? ['--minimize'] : []),
    ])
  }
  const program = join(WORK, host(), 'release', target)
  const artifacts = join(WORK, 'artifacts', target, '/')
  mkdirSync(artifacts, { recursive: true })
  const common = [`-artifact_prefix=${artifacts}`, `-max_len=${MAX_BYTES}`, '-timeout=10', '-rss_limit_mb=1024']
  if (input !== undefined) {
    return succeeds(program, [...common, resolve(input)])
  }
  const corpus = join(FOLDER, 'corpus', target)
  mkdirSync(corpus, { recursive: true })
  if (options.minimize) {
    return minimize(program, common, corpus)
  }
  // libFuzzer writes new inputs to the first folder. A replay leaves the corpus as it is.
  const found = join(WORK, 'found', target)
  rmSync(found, { recursive: true, force: true })
  cpSync(corpus, found, { recursive: true })
  const replayed = await succeeds(program, [...common, '-runs=0', corpus])
  if (!replayed || Number(seconds) === 0) {
    return replayed
  }
  const fuzzed = await succeeds(program, [
    ...common,
    `-max_total_time=${seconds}`,
    '-print_final_stats=1',
    '-len_control=0',
    found,
  ])
  return fuzzed && (options.replay || minimize(program, common, corpus, found))
}

/** Replaces a corpus by the inputs of these folders that together reach the same. */
async function minimize(program, common, corpus, ...others) {
  const merged = join(WORK, 'merged')
  rmSync(merged, { recursive: true, force: true })
  mkdirSync(merged, { recursive: true })
  if (!(await succeeds(program, [...common, '-set_cover_merge=1', '-use_counters=0', merged, corpus, ...others]))) {
    return false
  }
  rmSync(corpus, { recursive: true, force: true })
  renameSync(merged, corpus)
  console.log(`${corpus}: ${readdirSync(corpus).length} inputs`)
  return true
}

function succeeds(command, words) {
  const child = spawn(command, words, { cwd: ROOT, stdio: 'inherit' })
  return new Promise((settle) => child.once('close', (status) => settle(status === 0)))
}

function run(command, words, more = {}) {
  const { status } = spawnSync(command, words, { stdio: 'inherit', ...more })
  if (status !== 0) {
    process.exit(status ?? 1)
  }
}
