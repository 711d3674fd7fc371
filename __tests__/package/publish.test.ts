/** The publishing order of a release in scripts/publish.mjs. */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PLATFORMS } from '../../ts/backends/addon.js'
import { CLI, MAIN, Release, ROOT, run } from './release.js'

let release: Release
let complete: string

beforeAll(async () => {
  release = await Release.make()
  const addons = join(release.temp, 'addons')
  complete = join(release.temp, 'complete')
  mkdirSync(addons)
  // The packages of other platforms are missing here. Their content does not affect the order.
  for (const platform of PLATFORMS) {
    writeFileSync(join(addons, `${MAIN}.${platform}.node`), platform)
  }
  await node('stage-package.mjs', '--complete', '--addons', addons, '--out', complete)
})

afterAll(() => release.remove())

test('publishes all platforms first, then the main package, and the command line last', async () => {
  const { version } = release.main
  const lines = (await node('publish.mjs', '--dry-run', '--from', complete)).trim().split('\n')
  const platforms = PLATFORMS.map((platform) => `would publish ${MAIN}-${platform}@${version} as latest`)
  expect(lines.slice(0, -2).sort()).toEqual([...platforms].sort())
  expect(lines.slice(-2)).toEqual([MAIN, CLI].map((name) => `would publish ${name}@${version} as latest`))
})

test('publishes a prerelease under its own tag only', async () => {
  const trial = copy('trial')
  for (const name of readdirSync(trial)) {
    edit(join(trial, name), (manifest) => ({
      ...manifest,
      version: '1.0.0-rc.1',
      ...('dependencies' in manifest && { dependencies: { [MAIN]: '1.0.0-rc.1' } }),
    }))
  }
  const lines = await node('publish.mjs', '--dry-run', '--from', trial)
  expect(lines).toContain(`would publish ${MAIN}@1.0.0-rc.1 as next\n`)
  expect(lines).not.toContain('as latest')
})

test('publishes nothing if a release lacks a platform, mixes versions or has an extra package', async () => {
  const lacking = copy('lacking')
  rmSync(join(lacking, `${MAIN}-darwin-x64`), { recursive: true })
  await expect(node('publish.mjs', '--dry-run', '--from', lacking)).rejects.toThrow(`not staged: ${MAIN}-darwin-x64`)
  const mixed = copy('mixed')
  edit(join(mixed, `${MAIN}-darwin-x64`), (manifest) => ({ ...manifest, version: '9.9.9' }))
  await expect(node('publish.mjs', '--dry-run', '--from', mixed)).rejects.toThrow(/not at .*darwin-x64/)

  const withoutCli = copy('without-cli')
  rmSync(join(withoutCli, CLI), { recursive: true })
  await expect(node('publish.mjs', '--dry-run', '--from', withoutCli)).rejects.toThrow(`not staged: ${CLI}`)
  const loose = copy('loose')
  edit(join(loose, CLI), (manifest) => ({ ...manifest, dependencies: { [MAIN]: '*' } }))
  await expect(node('publish.mjs', '--dry-run', '--from', loose)).rejects.toThrow(`${CLI} does not depend on ${MAIN}@`)

  const strange = copy('strange')
  mkdirSync(join(strange, `${MAIN}-amiga`))
  await expect(node('publish.mjs', '--dry-run', '--from', strange)).rejects.toThrow(
    `no manifest depends on ${MAIN}-amiga`,
  )
})

function copy(name: string): string {
  const folder = join(release.temp, name)
  cpSync(complete, folder, { recursive: true })
  return folder
}

function edit(folder: string, change: (manifest: object) => object): void {
  const file = join(folder, 'package.json')
  writeFileSync(file, JSON.stringify(change(JSON.parse(readFileSync(file, 'utf8')))))
}

function node(script: string, ...words: readonly string[]): Promise<string> {
  return run('node', [join(ROOT, 'scripts', script), ...words])
}
