/**
 * The software bills of materials, compared with the compilations that cargo plans for a build, and
 * with the files that esbuild bundles.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Spec, Validation } from '@cyclonedx/cyclonedx-library'
import { CLI, MAIN, Release, ROOT } from './release.js'

interface Bill {
  readonly metadata: { readonly component: { readonly purl: string } }
  readonly components: readonly {
    readonly name: string
    readonly version: string
    readonly purl: string
    readonly hashes?: readonly { readonly content: string }[]
  }[]
}

/** A compilation: `platform` is null for what runs during the build, such as macros. */
interface Unit {
  readonly pkg_id: string
  readonly platform: string | null
  readonly mode: string
  readonly target: { readonly kind: readonly string[] }
}

const TARGETS: Readonly<Record<string, string>> = {
  'linux-x64-gnu': 'x86_64-unknown-linux-gnu',
  'linux-arm64-gnu': 'aarch64-unknown-linux-gnu',
  'darwin-arm64': 'aarch64-apple-darwin',
  'darwin-x64': 'x86_64-apple-darwin',
  'win32-x64-msvc': 'x86_64-pc-windows-msvc',
  'win32-arm64-msvc': 'aarch64-pc-windows-msvc',
}

let release: Release

beforeAll(async () => {
  release = await Release.make()
})

afterAll(() => release.remove())

test('the addon has one that lists exactly the crates that it links', async () => {
  const { name, version } = release.platform
  const bill = read(name)
  expect(bill.metadata.component.purl).toBe(`pkg:npm/${name}@${version}`)
  const target = TARGETS[name.slice(MAIN.length + 1)] as string
  expect(crates(bill)).toEqual(await compiled(target, '--features', 'node,redis,zones'))
  expect(crates(bill)).toContainEqual(expect.stringMatching(/^tokio@/))
})

test('the main package has one that lists exactly the crates of the WebAssembly', async () => {
  const bill = read(MAIN)
  const flags = ['--no-default-features', '--features', 'wasm,wasm-redis']
  expect(crates(bill)).toEqual(await compiled('wasm32-unknown-unknown', ...flags))
  expect(packages(bill)).toEqual([])
})

test('the command line has one that lists the crates of the playground and the bundled packages', async () => {
  const bill = read(CLI)
  expect(crates(bill)).toEqual(await compiled('wasm32-unknown-unknown', '--no-default-features', '--features', 'wasm'))
  // Its own libraries, and those of the playground.
  expect(packages(bill)).toEqual(expect.arrayContaining(['commander', 'preact', 'uplot']))
})

test('each crate has the checksum of Cargo.lock', () => {
  const lock = readFileSync(join(ROOT, 'Cargo.lock'), 'utf8')
  for (const { name, version, hashes } of [MAIN, CLI, release.platform.name].flatMap((one) => read(one).components)) {
    if (hashes !== undefined) {
      expect(lock).toMatch(
        new RegExp(
          `name = "${name}"\nversion = "${version.replaceAll(/[.+]/g, '\\$&')}"\n.*\nchecksum = "${hashes[0]?.content}"`,
        ),
      )
    }
  }
})

test('they follow the schema of CycloneDX', async () => {
  const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6)
  for (const name of [MAIN, CLI, release.platform.name]) {
    expect(await validator.validate(JSON.stringify(read(name)))).toBeNull()
  }
  expect(await validator.validate(JSON.stringify({ ...read(MAIN), components: [{ name: 'untyped' }] }))).not.toBeNull()
})

function read(name: string): Bill {
  return JSON.parse(readFileSync(join(release.stage, name, 'sbom.cdx.json'), 'utf8')) as Bill
}

function crates({ components }: Bill): string[] {
  return components.flatMap(({ purl }) => /^pkg:cargo\/(.*)$/.exec(purl)?.[1] ?? []).sort()
}

function packages({ components }: Bill): string[] {
  return components.flatMap(({ purl }) => /^pkg:npm\/(.*)@/.exec(purl)?.[1] ?? [])
}

/** The crates that a build compiles for the target. cargo only plans it. */
async function compiled(target: string, ...flags: readonly string[]): Promise<string[]> {
  const words = ['build', '--locked', '--release', '--lib', '--target', target, ...flags]
  const options = { cwd: ROOT, env: { ...process.env, RUSTC_BOOTSTRAP: '1' }, maxBuffer: 1 << 28 }
  const { stdout } = await promisify(execFile)('cargo', [...words, '-Zunstable-options', '--unit-graph'], options)
  const { units } = JSON.parse(stdout) as { readonly units: readonly Unit[] }
  const linked = units.filter(({ platform, mode, target }) => {
    return platform !== null && mode === 'build' && !target.kind.includes('custom-build')
  })
  const names = linked.flatMap(({ pkg_id }) => /^registry\+.*#(.*)$/.exec(pkg_id)?.[1] ?? [])
  return [...new Set(names)].sort()
}
