/** Identifies files by their content. File times are not used, because a checkout changes them. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/**
 * A hash of the names and contents of files, and of all files in folders, named relative to the root, without
 * installed packages.
 */
export function fingerprint(places) {
  return hashOf(places.flatMap(filesIn))
}

/** The same for all files that git tracks or would track, without the record of passed steps. */
export function treeFingerprint() {
  const words = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const names = execFileSync('git', words, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 26 })
  return hashOf(
    names
      .split('\0')
      .filter((name) => name !== '' && name !== 'scripts/test/passed.json')
      .map((name) => join(ROOT, name))
      .filter(existsSync),
  )
}

function hashOf(files) {
  const hash = createHash('sha256')
  for (const file of [...files].sort()) {
    hash
      .update(`${relative(ROOT, file)}\0`)
      .update(readFileSync(file))
      .update('\0')
  }
  return hash.digest('hex')
}

function filesIn(place) {
  const path = join(ROOT, place)
  if (!existsSync(path)) {
    return []
  }
  if (!statSync(path).isDirectory()) {
    return [path]
  }
  const entries = readdirSync(path, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .filter((file) => !file.includes('node_modules'))
}
