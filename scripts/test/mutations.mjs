/** Puts defects into the sources one by one, and reports whether a check finds each. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

/**
 * Edits the sources in place and restores them. They must be unchanged since the last commit.
 *
 * @param {Readonly<Record<string, readonly [file: string, text: string, defective: string]>>} mutations
 * By name.
 * @param {readonly string[]} requested The names to try; all if there are none.
 * @param {(name: string) => string | undefined} check Its finding in the mutated sources, if any.
 */
export function tryMutations(mutations, requested, check) {
  if (execFileSync('git', ['status', '--porcelain', 'src', 'lua'], { cwd: ROOT, encoding: 'utf8' }) !== '') {
    throw new Error('src or lua have changes that are not committed')
  }
  const names = requested.length > 0 ? requested : Object.keys(mutations)
  let missed = 0
  for (const name of names) {
    const found = findingOf(name, mutations[name] ?? fail(`no mutation is named ${JSON.stringify(name)}`), check)
    missed += found === undefined ? 1 : 0
    console.log(found === undefined ? `MISSED  ${name}` : `found   ${name}: ${found.slice(0, 160)}`)
  }
  console.log(`${names.length - missed} of ${names.length} found`)
  process.exitCode = missed > 0 ? 1 : 0
}

function findingOf(name, [file, text, other], check) {
  const path = join(ROOT, file)
  const source = readFileSync(path, 'utf8')
  try {
    writeFileSync(path, source.includes(text) ? source.replace(text, () => other) : fail(`${file} has no ${text}`))
    return check(name)
  } finally {
    writeFileSync(path, source)
  }
}

function fail(reason) {
  throw new Error(reason)
}
