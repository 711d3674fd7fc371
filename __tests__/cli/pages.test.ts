/**
 * Runs every `npx tollgate-cli` command of the pages in a shell, on logs like the ones that it names.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { EXIT } from '../../ts/cli/exit-codes.js'
import { programOf } from '../../ts/cli/run.js'
import { pages, ROOT } from '../docs/pages.js'

const PROGRAM = join(ROOT, 'dist', 'cli', 'main.js')

const run = promisify(execFile)

const page = pages.find(({ path }) => path === 'docs/command-line.md')

const commands = pages
  .flatMap(({ blocks }) => blocks.filter(({ language }) => language === 'sh'))
  .flatMap(({ code }) => code.split('\n').filter((line) => line.includes('npx tollgate-cli simulate')))

let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-pages-'))
  const line = (second: number) =>
    `10.0.0.${second % 3} - ann [31/Jan/2026:10:00:0${second} +0000] "GET /a HTTP/1.1" 200 10\n`
  const log = Array.from({ length: 10 }, (_, second) => line(second)).join('')
  writeFileSync(join(folder, 'access.log'), log)
  writeFileSync(join(folder, 'access.log.1.gz'), gzipSync(log))
  writeFileSync(join(folder, 'api.json'), '{"time":1769853600,"ip":"10.0.0.1","headers":{"x-api-key":"one"}}\n')
  const policies = page?.blocks.find(({ language }) => language === 'json')?.code ?? ''
  writeFileSync(join(folder, 'limits.json'), policies)
})

afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

test.each(commands)('%s', async (command) => {
  const words = command.replace('npx tollgate-cli', '"$NODE" "$PROGRAM"')
  const { PATH = '' } = process.env
  const env = { PATH, NODE: process.execPath, PROGRAM }
  const { stderr } = await run('sh', ['-c', words], { cwd: folder, env })
  expect(stderr).toBe('')
})

test('the page lists every exit code, and every option of simulate unless it is listed here with a reason', () => {
  const text = page?.text ?? ''
  const codes = [...text.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code))
  expect(codes).toEqual([...Object.values(EXIT), 130])
  const simulate = programOf(process, () => {}).commands.find((command) => command.name() === 'simulate')
  const undocumented = ['--no-progress', '--time-field']
  const options = (simulate?.options ?? []).map(({ long }) => long ?? '')
  expect(options.filter((option) => !text.includes(option))).toEqual(undocumented)
})
