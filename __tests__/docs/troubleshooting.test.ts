/** docs/troubleshooting.md has a heading for each code of the sources, and for no other. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { warn } from '../../ts/platform/warning.js'
import { pages, ROOT } from './pages.js'

const page = pages.find(({ path }) => path === 'docs/troubleshooting.md')

/** The codes that are headings of a section. */
function headings(section: string): string[] {
  const [, text = ''] = (page?.text ?? '').split(`\n## ${section}\n`)
  return [...(text.split('\n## ')[0] ?? '').matchAll(/^### `(\w+)`$/gm)].map(([, code = '']) => code).sort()
}

/** The names in quotes within a part of a source. */
function namesIn(path: string, part: RegExp): string[] {
  const [text = ''] = part.exec(readFileSync(join(ROOT, path), 'utf8')) ?? []
  return [...new Set(text.match(/(?<=')[A-Z_]+(?=')/g))].sort()
}

const warningCodes = namesIn('ts/platform/warning.ts', /^export type WarningCode =[\s\S]*?^$/m)

test.each([
  ['Error codes', namesIn('ts/api/error.ts', /^export type TollgateErrorCode =[\s\S]*?^$/m), 14],
  ['Warning codes', warningCodes, 13],
  ['Events of a store', namesIn('ts/backends/redis/health.ts', /^ {2}readonly warning:[\s\S]*?^}/m), 4],
])('%s: each code has a heading, and each heading is a code', (section, codes, least) => {
  expect(codes.length).toBeGreaterThanOrEqual(least)
  expect(headings(section)).toEqual(codes)
})

test('the sources have no other code of a warning', () => {
  const sources = execFileSync('git', ['ls-files', 'ts'], { cwd: ROOT, encoding: 'utf8' }).trim().split('\n')
  const named = sources.flatMap(
    (path) => readFileSync(join(ROOT, path), 'utf8').match(/(?<=')TOLLGATE_\w+(?=')/g) ?? [],
  )
  // The variable that chooses the engine.
  expect([...new Set(named)].filter((name) => name !== 'TOLLGATE_ENGINE').sort()).toEqual(warningCodes)
})

test('the detail of each warning names a heading of the page', () => {
  const emitted = jest.spyOn(process, 'emitWarning').mockImplementation(() => {})
  for (const code of warningCodes) {
    warn(code as Parameters<typeof warn>[0], 'a message')
  }
  const details = emitted.mock.calls.map(([, options]) => (options as unknown as { detail: string }).detail)
  emitted.mockRestore()
  expect(details).toHaveLength(warningCodes.length)
  const anchors = details.map((detail) => /^See docs\/troubleshooting\.md#(\w+)$/.exec(detail)?.[1] ?? detail)
  expect(anchors.filter((anchor) => !page?.anchors.has(anchor))).toEqual([])
})
