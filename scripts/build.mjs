/**
 * Builds what is missing or older than its sources, and nothing else.
 *
 *     node scripts/build.mjs [--profile NAME] [--wasm] [--force]
 *
 * --profile  how to compile the addon: `release`, with all optimisations, as it is published;
 *            `dev`, fast to compile, with overflow checks; or `any` (the default): keeps a
 *            current addon of either profile, otherwise `dev`
 * --wasm     also builds the engine as WebAssembly
 * --force    also builds parts that are current
 *
 * A part is current if its files exist and the content of its sources has not changed since its
 * last build.
 */
import { execSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { fingerprint, ROOT } from './content.mjs'

const STAMPS = join(ROOT, 'target', 'build')

/** The engine's sources, for the addon and for WebAssembly. */
const ENGINE = ['Cargo.toml', 'Cargo.lock', 'scripts/build.rs', 'src', 'lua']

/**
 * The parts in build order: the files or folders that a part is built from, its result files, and
 * its command.
 */
const PARTS = {
  native: {
    title: 'the addon',
    sources: [...ENGINE, 'scripts/build-native.mjs'],
    results: () =>
      readdirSync(join(ROOT, 'generated'))
        .filter((name) => /^tollgate\..*\.node$/.test(name))
        .map((name) => `generated/${name}`),
    make: (profile) => run(`npm run --silent build:native${profile === 'release' ? '' : ':dev'}`),
  },
  wasm: {
    title: 'WebAssembly',
    sources: [...ENGINE, 'scripts/wasm'],
    results: () =>
      ['tollgate.wasm', 'redis.wasm', 'inlined.js', 'redis-inlined.js'].map((name) => `generated/wasm/${name}`),
    make: () => run('npm run --silent build:wasm'),
  },
  ts: {
    title: 'dist/',
    // WebAssembly is bundled if it has been built.
    sources: [
      ...['ts', 'generated', 'package.json'],
      ...['scripts/bundle.mjs', 'scripts/declarations.mjs', 'scripts/third-party.mjs', 'scripts/wasm/bundle.mjs'],
    ],
    results: () => ['dist/index.js', 'dist/cli/main.js'],
    make: () => run('npm run --silent build:ts'),
  },
}

/**
 * Builds the parts that are not current.
 *
 * @param {object} request
 * @param {'dev' | 'release' | 'any'} [request.profile] How to compile the addon. `'any'` keeps an
 * addon of either profile, and compiles like `'dev'`.
 * @param {boolean} [request.wasm] Whether WebAssembly is needed.
 * @param {boolean} [request.force] Whether to build parts that are current, too.
 */
export function build({ profile = 'any', wasm = false, force = false }) {
  ensurePart('native', profile, force)
  if (wasm) {
    ensurePart('wasm', 'release', force)
  }
  ensurePart('ts', 'any', force)
}

function ensurePart(name, profile, force) {
  const { title, sources, results, make } = PARTS[name]
  const stamp = join(STAMPS, `${name}.json`)
  const last = existsSync(stamp) ? JSON.parse(readFileSync(stamp, 'utf8')) : undefined
  const files = results()
  const hash = fingerprint(sources)
  const isThere = files.length > 0 && files.every((file) => existsSync(join(ROOT, file)))
  const isCurrent = isThere && last?.sources === hash && (profile === 'any' || last.profile === profile)
  if (isCurrent && !force) {
    return
  }
  const made = profile === 'any' ? 'dev' : profile
  console.log(`Building ${title}${name === 'native' ? ` (${made} profile)` : ''}`)
  const start = performance.now()
  rmSync(stamp, { force: true })
  make(made)
  mkdirSync(STAMPS, { recursive: true })
  // `hash` was read before the build, so a source that changes during the build makes the result
  // stale.
  writeFileSync(stamp, JSON.stringify({ profile: made, sources: hash }))
  console.log(`Built ${title} in ${((performance.now() - start) / 1000).toFixed(1)} s`)
}

function run(command) {
  execSync(command, { cwd: ROOT, stdio: 'inherit' })
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      profile: { type: 'string', default: 'any' },
      wasm: { type: 'boolean', default: false },
      force: { type: 'boolean', default: false },
    },
  })
  if (!['any', 'dev', 'release'].includes(values.profile)) {
    throw new Error(`--profile must be any, dev or release, got ${values.profile}`)
  }
  build(values)
}
