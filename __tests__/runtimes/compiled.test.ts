/** A service as `bun build` makes it, by the commands of docs/bundlers.md, in a folder without packages. */
import { copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ANSWERS, blocksOf, deploy, newService, runCommands } from '../bundlers/page.js'
import { Release, run } from '../package/release.js'
import { BUN, jsonOutput } from './runtime.js'

let release: Release
let service: string
/** A folder of the `PATH` with the command `bun`. */
let bin: string

beforeAll(async () => {
  release = await Release.make()
  service = await newService(release, 'service')
  bin = join(release.temp, 'bin')
  mkdirSync(bin)
  copyFileSync(BUN.command, join(bin, 'bun'))
})

beforeEach(() => rmSync(join(service, 'dist'), { recursive: true, force: true }))

afterAll(() => release.remove())

test('the executable contains the addon', async () => {
  await runCommands(blocksOf('Bun')[0], service, [bin])
  const target = deploy(service, 'dist')
  expect(JSON.parse(await run(join(target, 'server'), [], target))).toEqual(ANSWERS)
})

test('the bundle has the addon beside it', async () => {
  await runCommands(blocksOf('Bun')[1], service, [bin])
  expect(await jsonOutput(BUN, deploy(service, 'dist'), 'server.js')).toEqual(ANSWERS)
})
