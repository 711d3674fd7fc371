/**
 * Checks that two builds in different folders give equal bytes: `npm run check:reproducible`.
 *
 * It copies the sources into two folders of different depth, and builds the addon and the
 * WebAssembly in each with nothing built before. The second build also has another folder for
 * cargo's crates.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { print } from './counted-tests.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const CARGO = process.env.CARGO_HOME || join(homedir(), '.cargo')

const temp = mkdtempSync(join(tmpdir(), 'tollgate-reproducible-'))
try {
  const first = build(join(temp, 'first'), CARGO)
  const second = build(join(temp, 'a', 'second', 'folder'), otherCargo(join(temp, 'cargo')))
  const rows = Object.entries(first).map(([name, file]) => {
    return [name, `${file.length}`, sha256(file), file.equals(second[name] ?? Buffer.of()) ? 'equal' : 'DIFFERENT']
  })
  print(['file', 'bytes', 'SHA-256', 'second build'], rows)
  if (rows.some((row) => row.at(-1) !== 'equal') || Object.keys(second).length !== rows.length) {
    process.exitCode = 1
  }
} finally {
  rmSync(temp, { recursive: true, force: true })
}

/** Builds in a new folder, and returns the contents of the results by name. */
function build(folder, cargo) {
  const sources = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  for (const file of sources.split('\0').filter((name) => name !== '' && existsSync(join(ROOT, name)))) {
    cpSync(join(ROOT, file), join(folder, file))
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'), 'junction')
  const options = { cwd: folder, env: { ...process.env, CARGO_HOME: cargo }, stdio: 'inherit' }
  execFileSync(process.execPath, ['scripts/build-native.mjs', '--release'], options)
  execFileSync(process.execPath, ['scripts/wasm/build.mjs'], options)
  const addons = readdirSync(join(folder, 'generated')).filter((name) => name.endsWith('.node'))
  const modules = readdirSync(join(folder, 'generated', 'wasm')).map((name) => `wasm/${name}`)
  return Object.fromEntries(
    [...addons, ...modules].map((name) => [name, readFileSync(join(folder, 'generated', name))]),
  )
}

/** Another folder with the same downloads. */
function otherCargo(folder) {
  mkdirSync(folder)
  for (const name of ['registry', 'config.toml'].filter((name) => existsSync(join(CARGO, name)))) {
    symlinkSync(join(CARGO, name), join(folder, name))
  }
  return folder
}

function sha256(file) {
  return createHash('sha256').update(file).digest('hex')
}
