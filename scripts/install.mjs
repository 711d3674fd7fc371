/**
 * Installs the packages of folders that have a lock file of their own, if that has changed since the last time.
 *
 *     node scripts/install.mjs FOLDER...
 *
 * Packages that only one kind of work needs (tests, benchmarks, the playground, …) are in folders of their own, so that
 * `npm ci` in the root stays small. Node.js looks for a package in the folder of the file that names it and then
 * upwards, so the files of such a folder find both its packages and those of the root.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** Installs the packages of folders, named relative to the root, one after the other. */
export function install(...folders) {
  for (const folder of folders) {
    const place = join(ROOT, folder)
    const stamp = join(place, 'node_modules', '.installed')
    const wanted = fingerprint(place)
    if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) {
      continue
    }
    console.log(`Installing the packages of ${folder}/`)
    // One string, as Windows has npm as a script of its shell.
    execFileSync('npm ci --no-audit --no-fund', { cwd: place, stdio: 'inherit', shell: true })
    // `import 'tollgate'` means the package of the nearest package.json, which here is not the root's.
    symlinkSync(ROOT, join(place, 'node_modules', 'tollgate'), 'junction')
    writeFileSync(stamp, wanted)
  }
}

/** Changes with what a folder needs, and with the platform, for which npm chooses binaries. */
function fingerprint(place) {
  const hash = createHash('sha256').update(`${process.platform} ${process.arch}`)
  for (const name of ['package.json', 'package-lock.json', '.npmrc']) {
    hash.update(readFileSync(join(place, name)))
  }
  return hash.digest('hex')
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  install(...process.argv.slice(2))
}
