/**
 * Installs the packages of folders with a lock file of their own, if they have changed since the
 * last time.
 *
 *     node scripts/install.mjs FOLDER...
 *
 * Packages for one kind of work (tests, benchmarks, the playground, …) are in folders of their own,
 * so that `npm ci` in the root stays small. Node.js searches the folder of the importing file and
 * then its parents, so the files of such a folder find both its packages and those of the root.
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
    const path = join(ROOT, folder)
    const stamp = join(path, 'node_modules', '.installed')
    const current = fingerprint(path)
    if (existsSync(stamp) && readFileSync(stamp, 'utf8') === current) {
      continue
    }
    console.log(`Installing the packages of ${folder}/`)
    // One string, because npm on Windows is a script of the shell.
    execFileSync('npm ci --no-audit --no-fund', { cwd: path, stdio: 'inherit', shell: true })
    // `import 'tollgate'` resolves to the package of the nearest package.json, which here is not
    // that of the root.
    symlinkSync(ROOT, join(path, 'node_modules', 'tollgate'), 'junction')
    writeFileSync(stamp, current)
  }
}

/**
 * The state of a folder's packages: its lock file, and the platform, for which npm chooses
 * binaries. scripts/platforms.mjs sets the variables.
 */
function fingerprint(path) {
  const { npm_config_cpu: cpu = process.arch, npm_config_libc: libc = '' } = process.env
  const hash = createHash('sha256').update(`${process.platform} ${cpu}${libc}`)
  for (const name of ['package.json', 'package-lock.json', '.npmrc']) {
    hash.update(readFileSync(join(path, name)))
  }
  return hash.digest('hex')
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  install(...process.argv.slice(2))
}
