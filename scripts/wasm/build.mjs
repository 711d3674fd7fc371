// Builds the engine as WebAssembly: `npm run build:wasm`. The output is in wasm/, and is not
// committed:
//
// - tollgate.wasm: the engine with the embedded store
// - inlined.js: the same as text in a program, compressed
// - engine.js, engine.d.ts: wasm-bindgen's glue, as CommonJS
// - redis.wasm, redis-inlined.js, redis-engine.js, redis-engine.d.ts: the same for Redis
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { deflateRawSync, gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { TARGET, toolchain } from './toolchain.mjs'

const HERE = dirname(fileURLToPath(import.meta.url))
const ROOT = join(HERE, '..', '..')
const WORK = join(ROOT, 'target', 'wasm')
const OUT = join(ROOT, 'generated', 'wasm')

/** The cache that all clones share: the toolchain and wasm-bindgen's generator. */
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'tollgate-wasm')

/** The modules: the cargo feature, the name of the module, and the prefix of its other files. */
const MODULES = [
  { feature: 'wasm', name: 'tollgate', prefix: '' },
  { feature: 'wasm-redis', name: 'redis', prefix: 'redis-' },
]

const generated = join(WORK, 'generated')
const command = generator()
rmSync(OUT, { recursive: true, force: true })
mkdirSync(OUT)
for (const { feature, name, prefix } of MODULES) {
  generate(compile(feature))
  const engine = withoutNotes(readFileSync(join(generated, 'engine_bg.wasm')))
  writeFileSync(join(OUT, `${name}.wasm`), engine)
  inline(engine, prefix)
  await bundle(prefix)
  const size = gzipSync(engine, { level: 9 }).length
  console.log(`wasm/${name}.wasm: ${(size / 1_000).toFixed(1)} kB gzipped`)
}

/** Compiles the engine with a feature, and returns the module's path. */
function compile(feature) {
  const { name, args, env, flags } = toolchain(CACHE)
  console.log(`compiled by ${name}`)
  const home = process.env.CARGO_HOME || join(homedir(), '.cargo')
  // Inlines more than `opt-level = "z"` does by itself: for functions of a few instructions a call
  // is larger. The module passes no references to JavaScript objects.
  const small = ['-Cllvm-args=-inline-threshold=20', '-Ctarget-feature=-reference-types']
  // Replaces the machine's paths, so that the module is the same on every machine.
  const remapped = [`--remap-path-prefix=${home}=/cargo`, `--remap-path-prefix=${ROOT}=/src`]
  const features = ['--no-default-features', '--features', feature]
  const folder = join(WORK, feature)
  cargo(['--profile', 'wasm', '--lib', '--locked', ...features, '--target', TARGET, '--target-dir', folder, ...args], {
    ...env,
    CARGO_ENCODED_RUSTFLAGS: [...flags, ...small, ...remapped].join('\x1f'),
  })
  return join(folder, TARGET, 'wasm', 'tollgate.wasm')
}

/** Builds wasm-bindgen's generator in exactly the version of the crate, and returns its path. */
function generator() {
  const manifest = join(HERE, 'bindgen', 'Cargo.toml')
  const [, version] = /^wasm-bindgen-cli-support = "=(.*)"$/m.exec(readFileSync(manifest, 'utf8'))
  const folder = join(CACHE, `bindgen-${version}`)
  cargo(['--release', '--locked', '--manifest-path', manifest, '--target-dir', folder], {})
  return join(folder, 'release', `tollgate-bindgen${process.platform === 'win32' ? '.exe' : ''}`)
}

function generate(module) {
  rmSync(generated, { recursive: true, force: true })
  execFileSync(command, [module, generated], { stdio: 'inherit' })
}

/** Removes a module's custom sections, in which tools store notes for each other. */
function withoutNotes(module) {
  const kept = [module.subarray(0, 8)]
  for (let start = 8; start < module.length; ) {
    let [at, size] = [start + 1, 0]
    // LEB128: seven bits a byte, the lowest first.
    for (let shift = 0; ; shift += 7) {
      const byte = module[at++]
      size |= (byte & 0x7f) << shift
      if (byte < 0x80) break
    }
    if (module[start] !== 0) kept.push(module.subarray(start, at + size))
    start = at + size
  }
  return Buffer.concat(kept)
}

/** The module as text: for browsers, and for programs that are bundled into one file. */
function inline(engine, prefix) {
  const deflated = deflateRawSync(engine, { level: 9 }).toString('base64')
  writeFileSync(
    join(OUT, `${prefix}inlined.js`),
    `exports.size = ${engine.length}\nexports.deflated =\n  '${deflated}'\n`,
  )
  writeFileSync(
    join(OUT, `${prefix}inlined.d.ts`),
    `/** The bytes of the engine. */
export declare const size: number
/** The engine, as raw deflate in Base64. */
export declare const deflated: string
`,
  )
}

/** The glue as one CommonJS module. */
async function bundle(prefix) {
  copyFileSync(join(HERE, 'host.mjs'), join(generated, 'host.js'))
  const contents = "export * from './engine.js'\nexport { setHost } from './host.js'\n"
  await build({
    stdin: { contents, resolveDir: generated },
    bundle: true,
    format: 'cjs',
    // Names the exports in a form that Node.js and Deno find without running the module.
    platform: 'node',
    outfile: join(OUT, `${prefix}engine.js`),
    // Replaces `import.meta`, which the glue needs only to find the module by itself.
    logOverride: { 'empty-import-meta': 'silent' },
  })
  const types = readFileSync(join(generated, 'engine.d.ts'), 'utf8')
  const host = '{ randomBits(): number; offsetAt(zone: number, epochSeconds: number): number }'
  writeFileSync(join(OUT, `${prefix}engine.d.ts`), `${types}\nexport declare function setHost(host: ${host}): void\n`)
}

function cargo(args, env) {
  execFileSync('cargo', ['build', ...args], { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...env } })
}
