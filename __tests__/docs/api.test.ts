/** The API reference that `npm run docs:api` generates. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const ROOT = dirname(dirname(__dirname))

test('has a page for every entry point', () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const { entryPoints } = JSON.parse(readFileSync(join(ROOT, 'docs', 'typedoc.json'), 'utf8'))
  const { './package.json': _, ...subpaths } = exports as Record<string, { require: { default: string } }>
  const sources = Object.values(subpaths).map(({ require: { default: file } }) =>
    file.replace('./dist/', '../ts/').replace('.js', '.ts'),
  )
  expect([...entryPoints].sort()).toEqual(sources.sort())
})

test('documents every export, and has no broken link', async () => {
  const typedoc = join(ROOT, 'docs', 'node_modules', 'typedoc', 'bin', 'typedoc')
  // The compiler's own errors are those of `npm run check`.
  const run = promisify(execFile)(
    process.execPath,
    [typedoc, '--options', 'docs/typedoc.json', '--emit', 'none', '--skipErrorChecking'],
    { cwd: ROOT },
  )
  const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => error)
  expect(stderr + stdout).toBe('')
})
