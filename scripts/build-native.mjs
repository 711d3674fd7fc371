/**
 * Builds the addon: `npm run build:native` with the release profile, `build:native:dev` without.
 * Further arguments are those of `napi build`.
 *
 * The release contains no path of this machine, so that its bytes are the same wherever it is built:
 * `npm run check:reproducible`.
 */
import { spawnSync } from 'node:child_process'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const NAPI = join(ROOT, 'node_modules', '@napi-rs', 'cli', 'dist', 'cli.js')

const args = process.argv.slice(2)
const env = { ...process.env }
if (args.includes('--release')) {
  const cargo = process.env.CARGO_HOME || join(homedir(), '.cargo')
  const remapped = [`--remap-path-prefix=${cargo}=/cargo`, `--remap-path-prefix=${ROOT}=/src`]
  // The variable separates its flags by spaces.
  const flags = remapped.filter((flag) => !/\s/.test(flag))
  env.RUSTFLAGS = [process.env.RUSTFLAGS, ...flags].filter(Boolean).join(' ')
}
const folder = args.includes('--output-dir') ? [] : ['--output-dir', 'generated']
const words = ['build', '--platform', ...folder, '--js', 'native.js', '--dts', 'native.d.ts', ...args]
process.exitCode = spawnSync(process.execPath, [NAPI, ...words], { cwd: ROOT, env, stdio: 'inherit' }).status ?? 1
