/** The commands and configurations of docs/bundlers.md, and the folders in which they run. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { type Block, pageOf } from '../docs/pages.js'
import { type Release, ROOT, run } from '../package/release.js'

const PATH = 'docs/bundlers.md'
const TEXT = readFileSync(join(ROOT, PATH), 'utf8')

/** The output of the service of `programs/server.mjs`. */
export const ANSWERS = { statuses: [200, 200, 429], wasm: { status: 'allowed', remaining: 1 } }

/** The code blocks below a heading, up to the next one. */
export function blocksOf(heading: string): readonly Block[] {
  const [, section] = TEXT.split(new RegExp(`^## ${heading}$`, 'm'))
  const { blocks } = pageOf(PATH, (section ?? '').split(/^## /m)[0] as string)
  if (blocks.length === 0) {
    throw new Error(`${PATH} has no code below "${heading}"`)
  }
  return blocks
}

/** The commands of a block, by tools that are installed for these tests. `npx` would look for them elsewhere. */
export function runCommands(block: Block | undefined, folder: string, path: readonly string[] = []): Promise<string> {
  const folders = [...path, ...[__dirname, ROOT].map((place) => join(place, 'node_modules', '.bin'))]
  const commands = (block?.code ?? 'false').replace(/^npx /gm, '')
  return run('sh', ['-e', '-c', `PATH="${folders.join(delimiter)}:$PATH"\n${commands}`], folder)
}

/** A folder with the service, the package, the addon and Express, and no link out of it. */
export async function newService(release: Release, name: string): Promise<string> {
  const folder = await release.install(name)
  cpSync(join(__dirname, 'programs', 'server.mjs'), join(folder, 'server.mjs'))
  copyPackage('express', join(folder, 'node_modules'))
  return folder
}

/** Copies a package of the root with its dependencies. */
function copyPackage(name: string, target: string): void {
  const source = join(ROOT, 'node_modules', name)
  if (existsSync(join(target, name))) {
    return
  }
  cpSync(source, join(target, name), { recursive: true })
  const { dependencies = {} } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8')) as {
    readonly dependencies?: object
  }
  for (const dependency of Object.keys(dependencies).filter((one) => !existsSync(join(source, 'node_modules', one)))) {
    copyPackage(dependency, target)
  }
}

/** Copies the output of a build to an empty folder, and the named packages of the service beside it. */
export function deploy(service: string, built: string, packages: readonly string[] = []): string {
  const target = join(dirname(service), `${readdirSync(dirname(service)).length}-deployed`)
  mkdirSync(target)
  cpSync(join(service, built), target, { recursive: true })
  for (const name of packages) {
    cpSync(join(service, 'node_modules', name), join(target, 'node_modules', name), { recursive: true })
  }
  return target
}
