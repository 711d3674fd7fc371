/** Which steps have passed with the present content of the files that they read. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fingerprint, ROOT, treeFingerprint } from '../content.mjs'

const FOLDER = join(ROOT, 'target', 'test-stamps')

/** The content of a step and of all that it reads, or undefined for a step that is not stamped. */
export function contentOf({ command, env = {}, reads }) {
  if (reads === undefined) {
    return undefined
  }
  const read = reads === 'tree' ? treeFingerprint() : fingerprint(reads)
  const words = [command, Object.entries(env).sort(), read, process.version, compiler()]
  return createHash('sha256').update(JSON.stringify(words)).digest('hex')
}

/** Whether a step has passed with this content. */
export function hasPassed(step, content) {
  const file = fileOf(step)
  return content !== undefined && existsSync(file) && readFileSync(file, 'utf8') === content
}

/** Records that a step passed or failed with this content, which was read before it ran. */
export function record(step, content, isPassed) {
  const file = fileOf(step)
  if (content === undefined) {
    return
  }
  mkdirSync(dirname(file), { recursive: true })
  if (isPassed) {
    writeFileSync(file, content)
  } else {
    rmSync(file, { force: true })
  }
}

function fileOf({ name }) {
  return join(FOLDER, name.replaceAll(/\W+/g, '-'))
}

let version

function compiler() {
  version ??= execFileSync('rustc', ['--version'], { encoding: 'utf8' })
  return version
}
