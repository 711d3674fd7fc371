/**
 * The packages that npm would publish, packed and installed in external folders. No registry is
 * needed: an optional dependency that cannot be found is skipped, offline too.
 */
import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

export const ROOT = join(__dirname, '..', '..')
export const MAIN = 'tollgate'
export const CLI = 'tollgate-cli'

/** The programs of the consumers. */
const PROGRAMS = join(__dirname, 'programs')

/** A package in the output of `npm pack`. */
export interface PackedPackage {
  readonly name: string
  readonly version: string
  readonly filename: string
  readonly size: number
  readonly unpackedSize: number
  readonly files: readonly { readonly path: string }[]
}

/** The packages of a release. Those of other platforms are missing here. */
export class Release {
  /** The folder of everything: the staged folders, the tarballs, the consumers. */
  readonly temp = mkdtempSync(join(tmpdir(), 'tollgate-package-'))
  readonly stage = join(this.temp, 'stage')
  /** The output of the staging script. */
  report = ''
  #packed: readonly PackedPackage[] = []

  static async make(): Promise<Release> {
    const release = new Release()
    const packed = await packedOnce()
    cpSync(packed, release.temp, { recursive: true })
    release.report = readFileSync(join(packed, 'report.txt'), 'utf8')
    release.#packed = JSON.parse(readFileSync(join(packed, 'packed.json'), 'utf8')) as readonly PackedPackage[]
    return release
  }

  get main(): PackedPackage {
    return only(this.#packed.filter(({ name }) => name === MAIN))
  }

  /** The package of the command line. */
  get cli(): PackedPackage {
    return only(this.#packed.filter(({ name }) => name === CLI))
  }

  /** The package of the platform that the tests run on. */
  get platform(): PackedPackage {
    return only(this.#packed.filter(({ name }) => name !== MAIN && name !== CLI))
  }

  tarball({ filename }: PackedPackage): string {
    return join(this.temp, filename)
  }

  /**
   * A new folder with the main package installed. npm adds the platform's package, as it does from the
   * registry.
   */
  install(name: string, ...options: string[]): Promise<string> {
    return this.#install(name, [this.main], options)
  }

  /** A new folder with the command line installed, and with it the main package, as from the registry. */
  installCli(name: string): Promise<string> {
    return this.#install(name, [this.cli, this.main], [])
  }

  async #install(name: string, packages: readonly PackedPackage[], options: readonly string[]): Promise<string> {
    const folder = join(this.temp, name)
    const fileOf = (packed: PackedPackage) => [packed.name, `file:../${packed.filename}`] as const
    mkdirSync(folder)
    const manifest = {
      private: true,
      dependencies: Object.fromEntries(packages.map(fileOf)),
      optionalDependencies: Object.fromEntries([fileOf(this.platform)]),
    }
    writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
    // The cache is empty, so that packages fetched earlier on this machine do not matter.
    const quiet = ['--offline', '--cache', join(this.temp, 'cache'), '--no-audit', '--no-fund']
    await npm(folder, 'install', ...quiet, ...options)
    return folder
  }

  remove(): void {
    rmSync(this.temp, { recursive: true, force: true })
  }
}

/** Where the packages are packed, once for all tests: a folder for each content. */
const PACKED = join(ROOT, 'target', 'packed')

/** All that the packages contain, or that decides their contents. */
const SOURCES = [
  ...['dist', 'generated/wasm', 'npm', 'package.json', 'package-lock.json', 'Cargo.toml', 'Cargo.lock'],
  ...['README.md', 'CHANGELOG.md', 'LICENSE', 'scripts', 'examples/playground'],
]

/** The longest time for which another test packs. */
const PACKING_MS = 300_000

/** The folder of the staged folders and the tarballs. The first test that needs it packs. */
async function packedOnce(): Promise<string> {
  const addons = readdirSync(join(ROOT, 'generated'))
    .filter((name) => name.endsWith('.node'))
    .map((name) => `generated/${name}`)
  const script = `import { fingerprint } from './scripts/content.mjs'; console.log(fingerprint(process.argv.slice(1)))`
  const words = ['--input-type=module', '--eval', script, ...SOURCES, ...addons]
  const folder = join(PACKED, (await run('node', words)).trim())
  const lock = `${folder}.lock`
  mkdirSync(PACKED, { recursive: true })
  for (const end = performance.now() + PACKING_MS; !existsSync(folder); await sleep(100)) {
    if (isMade(lock)) {
      try {
        await pack(folder)
      } finally {
        rmdirSync(lock)
      }
    } else if (performance.now() > end) {
      throw new Error(`another test packs for too long; remove ${lock} if none does`)
    }
  }
  return folder
}

/** Whether this call has made a folder that did not exist. */
function isMade(folder: string): boolean {
  try {
    mkdirSync(folder)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      return false
    }
    throw error
  }
}

/** Stages and packs the packages, without those of an earlier content. */
async function pack(folder: string): Promise<void> {
  for (const name of readdirSync(PACKED).filter((other) => !other.endsWith('.lock'))) {
    rmSync(join(PACKED, name), { recursive: true })
  }
  const work = mkdtempSync(join(tmpdir(), 'tollgate-packing-'))
  const stage = join(work, 'stage')
  writeFileSync(
    join(work, 'report.txt'),
    await run('node', [join(ROOT, 'scripts', 'stage-package.mjs'), '--out', stage]),
  )
  const packOne = (name: string) =>
    npm(join(stage, name), 'pack', '--json', '--ignore-scripts', '--pack-destination', work)
  const answers = await Promise.all(readdirSync(stage).map(packOne))
  const packed = answers.flatMap((answer) => JSON.parse(answer) as PackedPackage[])
  writeFileSync(join(work, 'packed.json'), JSON.stringify(packed))
  // Complete before it has its name.
  const copy = `${folder}.copy`
  cpSync(work, copy, { recursive: true })
  renameSync(copy, folder)
  rmSync(work, { recursive: true })
}

/** Copies programs into a consumer's folder. */
export function copyPrograms(folder: string, ...names: readonly string[]): void {
  for (const name of names) {
    cpSync(join(PROGRAMS, name), join(folder, name))
  }
}

/** Gives a consumer packages that are installed here, with their dependencies. */
export function link(folder: string, ...names: readonly string[]): void {
  for (const name of names) {
    const target = join(folder, 'node_modules', name)
    mkdirSync(dirname(target), { recursive: true })
    symlinkSync(installed(name), target, 'junction')
  }
}

/** The entry points of the package, as a program names them. */
export function entryPoints(): string[] {
  const manifest = require(join(ROOT, 'package.json')) as { readonly exports: object }
  const subpaths = Object.keys(manifest.exports).filter((subpath) => subpath !== './package.json')
  return subpaths.map((subpath) => subpath.replace('.', MAIN))
}

/** A program's output, parsed as JSON. */
export async function jsonOutput(folder: string, ...words: string[]): Promise<Record<string, unknown>> {
  return JSON.parse(await run('node', words, folder)) as Record<string, unknown>
}

/** The folder of a package that is installed for these tests, for all tests, or in the root. */
export function installed(name: string): string {
  const folders = [__dirname, dirname(__dirname), ROOT].map((folder) => join(folder, 'node_modules', name))
  const found = folders.find((folder) => existsSync(folder))
  if (found === undefined) {
    throw new Error(`${name} is not installed: npm run test:full -- package`)
  }
  return found
}

/** Runs a tool that is installed for these tests. */
export function npx(...args: string[]): Promise<string> {
  return npm(__dirname, 'exec', '--no', '--', ...args)
}

function npm(cwd: string, ...args: string[]): Promise<string> {
  return process.platform === 'win32' ? run('npm.cmd', args, cwd, true) : run('npm', args, cwd)
}

/** The output of a command. If the command fails, throws with its whole output. */
export async function run(command: string, args: readonly string[], cwd = ROOT, shell = false): Promise<string> {
  try {
    return (await promisify(execFile)(command, args, { cwd, shell })).stdout
  } catch (error) {
    const { message, stdout } = error as Error & { stdout: string }
    throw new Error(`${message}\n${stdout}`)
  }
}

function only<T>(items: readonly T[]): T {
  expect(items).toHaveLength(1)
  return items[0] as T
}
