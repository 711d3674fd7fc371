/** Builds the addon for a platform that this machine is not, as packages.yml does: linked by Zig. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { hasTarget, withSources } from '../wasm/toolchain.mjs'
import { LINKER } from './list.mjs'

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

/** The cache of the compiler for WebAssembly, which compiles for these platforms, too. */
const COMPILERS = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'tollgate-wasm')

/**
 * How cargo compiles for a target: its environment, and its additional arguments. Without the
 * target's standard library (`rustup target add`), that is compiled, too.
 */
export function crossCompiler(target, archives, cache) {
  const linker = join(cache, 'linker')
  rmSync(linker, { recursive: true, force: true })
  for (const archive of LINKER) {
    archives.unpack(archive, linker)
  }
  const bin = join(linker, 'bin')
  const script = readdirSync(linker).find((name) => name.endsWith('.data'))
  mkdirSync(bin)
  for (const program of [join(linker, 'ziglang', 'zig'), join(linker, script, 'scripts', 'cargo-zigbuild')]) {
    chmodSync(program, 0o755)
    symlinkSync(program, join(bin, program.slice(dirname(program).length + 1)))
  }
  const sources = hasTarget(target) ? undefined : withSources(COMPILERS)
  return {
    env: { ...process.env, ...sources?.env, PATH: `${bin}:${process.env.PATH}` },
    args: sources === undefined ? [] : ['-Zbuild-std=std,panic_unwind'],
  }
}

/** Builds the addon for a target into a folder. */
export function buildAddon(target, compiler, folder) {
  const folders = ['--target-dir', join(ROOT, 'target', 'platforms'), '--output-dir', folder]
  const words = ['--release', '--target', target, '--cross-compile', ...folders, '--', ...compiler.args]
  execFileSync(process.execPath, [join(ROOT, 'scripts', 'build-native.mjs'), ...words], {
    cwd: ROOT,
    env: compiler.env,
    stdio: 'inherit',
  })
}
