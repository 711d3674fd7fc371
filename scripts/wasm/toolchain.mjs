// Finds a compiler for WebAssembly, and one with the sources of its standard library.
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'

export const TARGET = 'wasm32-unknown-unknown'

/** Debian's compiler comes without a linker for it. */
const LINKER = 'CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER'

/**
 * The way to run cargo: its arguments, its environment, and the compiler's flags.
 *
 * If the toolchain has the sources of the standard library (`rustup component add rust-src`), they
 * are compiled with the engine, which makes the module smaller. Otherwise, if it has the target
 * (`rustup target add wasm32-unknown-unknown`), the target's library is linked. If it has neither,
 * Debian's packages supply compiler and sources: they are unpacked into `cache`, and nothing is
 * installed.
 */
export function toolchain(cache) {
  if (!existsSync(join(sourcesIn(sysroot()), 'std')) && hasTarget(TARGET)) {
    return { name: `the toolchain's ${TARGET}`, args: [], env: {}, flags: [] }
  }
  const { name, library, env } = withSources(cache)
  const host = /^host: (.*)$/m.exec(run('rustc', ['-vV']))[1]
  const linker = join(sysroot(), 'lib', 'rustlib', host, 'bin', 'rust-lld')
  const linked = env.RUSTC === undefined ? {} : { [LINKER]: linker }
  return withLibrary(name, library, { ...env, ...linked })
}

/** Whether the toolchain has the standard library of a target. */
export function hasTarget(target) {
  return existsSync(join(sysroot(), 'lib', 'rustlib', target))
}

/**
 * A compiler with the sources of its standard library, which it can compile for any target: the
 * toolchain, or Debian's packages. `env` lets cargo use it, with the unstable options for that.
 */
export function withSources(cache) {
  const own = sourcesIn(sysroot())
  // Those options are unstable, and a released compiler accepts them only with this variable.
  const env = { RUSTC_BOOTSTRAP: '1' }
  if (existsSync(join(own, 'std'))) {
    return { name: 'the toolchain, with the sources of its standard library', library: own, env }
  }
  const debian = debians(cache)
  const library = sourcesIn(join(debian, 'usr'))
  return { name: "Debian's rustc-web", library, env: { ...env, RUSTC: join(debian, 'bin', 'rustc') } }
}

function sysroot() {
  return run('rustc', ['--print', 'sysroot']).trim()
}

function sourcesIn(folder) {
  return join(folder, 'lib', 'rustlib', 'src', 'rust', 'library')
}

/** Compiles the standard library, too, without the texts of panics, which are never shown. */
function withLibrary(name, library, env) {
  return {
    name,
    args: ['-Zbuild-std=std,panic_abort', '-Zbuild-std-features=optimize_for_size', '-Zpanic-immediate-abort'],
    env: { ...env, CARGO_PROFILE_WASM_PANIC: 'immediate-abort' },
    flags: ['-Zlocation-detail=none', '-Zfmt-debug=none', `--remap-path-prefix=${library}=/rustc`],
  }
}

/**
 * Debian's packages of one version: a compiler that is newer than the system's, its library, and
 * the library's sources.
 */
const PACKAGES = ['rustc-web', 'libstd-rust-web-dev', 'rust-web-src']

/** The folder with Debian's packages, unpacked. */
function debians(cache) {
  const needed = neededRust()
  mkdirSync(cache, { recursive: true })
  const kept = readdirSync(cache).find((name) => name.startsWith('debian-') && isAtLeast(name, needed))
  if (kept !== undefined) {
    return join(cache, kept)
  }
  const version = candidate(PACKAGES[0])
  if (version === undefined || !isAtLeast(version, needed)) {
    const advice = `rustup target add ${TARGET}, or better rustup component add rust-src`
    const known = version === undefined ? '' : ` (Debian's ${PACKAGES[0]} is ${version}, and Rust ${needed} is needed)`
    throw new Error(`nothing here compiles for ${TARGET}${known}: ${advice}`)
  }
  const folder = join(cache, `debian-${version.replaceAll(/[^\w.+-]/g, '_')}`)
  // Another process may do the same: the first to finish moves its folder into place.
  const own = mkdtempSync(join(cache, 'unpacking-'))
  unpack(version, own)
  try {
    renameSync(own, folder)
  } catch {
    rmSync(own, { recursive: true })
  }
  return folder
}

/** The oldest Rust that compiles the engine, such as `1.95`. */
function neededRust() {
  const manifest = readFileSync(new URL('../../Cargo.toml', import.meta.url), 'utf8')
  return /^rust-version = "(.*)"$/m.exec(manifest)[1]
}

/** Whether the first Rust version in a text is `needed` or later. */
function isAtLeast(text, needed) {
  const [major, minor] = /(\d+)\.(\d+)/.exec(text).slice(1).map(Number)
  const [neededMajor, neededMinor] = needed.split('.').map(Number)
  return major > neededMajor || (major === neededMajor && minor >= neededMinor)
}

/** The available version of a package. */
function candidate(name) {
  try {
    // The list from the machine's setup may name replaced or outdated versions.
    run('apt-get', ['update', '-qq'])
  } catch {
    // Without the permission to update, the present list is used. Without apt, there is none.
  }
  try {
    return /Candidate: (\d\S*)/.exec(run('apt-cache', ['policy', name]))?.[1]
  } catch {
    return undefined
  }
}

function unpack(version, folder) {
  const show = (name) => run('apt-cache', ['show', `${name}=${version}`])
  const [library] = /libstd-rust-web-\d[\d.]*/.exec(show('libstd-rust-web-dev'))
  const [llvm] = /libllvm\d+/.exec(show(library))
  const wanted = [...PACKAGES, library].map((name) => `${name}=${version}`)
  run('apt-get', ['download', '-qq', ...wanted, ...(isInstalled(llvm) ? [] : [llvm])], folder)
  const archives = readdirSync(folder).filter((name) => name.endsWith('.deb'))
  for (const archive of archives) {
    run('dpkg-deb', ['-x', archive, '.'], folder)
    rmSync(join(folder, archive))
  }
  mkdirSync(join(folder, 'bin'))
  const here = '$(dirname "$(dirname "$0")")'
  const script = `#!/bin/sh
LD_LIBRARY_PATH=${here}/usr/lib/$(uname -m)-linux-gnu exec "${here}/usr/bin/rustc" "$@"
`
  writeFileSync(join(folder, 'bin', 'rustc'), script, { mode: 0o755 })
}

function isInstalled(name) {
  try {
    return run('dpkg', ['-s', name]).includes('install ok installed')
  } catch {
    return false
  }
}

function run(command, args, cwd) {
  return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}
