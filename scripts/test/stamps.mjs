/** Which steps have passed with the present content of the files that they read. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fingerprint, ROOT, treeFingerprint } from '../content.mjs'

const FOLDER = join(ROOT, 'target', 'test-stamps')

/**
 * The contents with which the recorded steps have passed, by step. It is committed, so a fresh clone
 * leaves these steps out, too: they take minutes to compile, and few changes affect them.
 */
const RECORD = join(ROOT, 'scripts', 'test', 'passed.json')

/** The content of a step and of all that it reads, or undefined for a step that is not stamped. */
export function contentOf({ command, env = {}, reads, isRecorded = false }) {
  if (reads === undefined) {
    return undefined
  }
  const read = reads === 'tree' ? treeFingerprint() : fingerprint(reads)
  const words = [command, Object.entries(env).sort(), read, isRecorded ? process.arch : process.version, compiler()]
  return createHash('sha256').update(JSON.stringify(words)).digest('hex')
}

/** Whether a step has passed with this content. */
export function hasPassed(step, content) {
  if (content === undefined) {
    return false
  }
  const file = fileOf(step)
  return (
    (existsSync(file) && readFileSync(file, 'utf8') === content) ||
    (step.isRecorded === true && recorded()[step.name] === content)
  )
}

/** Notes that a step passed or failed with this content, which was read before it ran. */
export function note(step, content, isPassed) {
  if (content === undefined) {
    return
  }
  const file = fileOf(step)
  mkdirSync(dirname(file), { recursive: true })
  if (!isPassed) {
    rmSync(file, { force: true })
    return
  }
  writeFileSync(file, content)
  if (step.isRecorded === true) {
    const all = Object.entries({ ...recorded(), [step.name]: content }).sort()
    writeFileSync(RECORD, `${JSON.stringify(Object.fromEntries(all), undefined, 2)}\n`)
  }
}

function recorded() {
  return existsSync(RECORD) ? JSON.parse(readFileSync(RECORD, 'utf8')) : {}
}

function fileOf({ name }) {
  return join(FOLDER, name.replaceAll(/\W+/g, '-'))
}

let version

function compiler() {
  version ??= execFileSync('rustc', ['--version'], { encoding: 'utf8' })
  return version
}
