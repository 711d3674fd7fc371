/**
 * Checks the code of others: `npm run check:supply -- [--offline]`.
 *
 * - The crates of every Cargo.lock: advisories, licences, sources, against .cargo/deny.toml. It needs
 *   `cargo install cargo-deny --locked`, and downloads the advisories from GitHub.
 * - The packages of every package-lock.json, against the advisories of npm's registry. A finding in
 *   a dependency of users fails at any level. Others fail from `high` on: users are not affected, so
 *   low and moderate ones wait for Dependabot.
 *
 * --offline  leaves out the advisories of crates and packages, and says so
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

const { offline } = parseArgs({ options: { offline: { type: 'boolean', default: false } } }).values
const kinds = ['bans', 'licenses', 'sources', ...(offline ? [] : ['advisories'])]
const checks = folders('Cargo.lock').map((folder) => {
  const manifest = [
    '--manifest-path',
    join(ROOT, folder, 'Cargo.toml'),
    '--config',
    join(ROOT, '.cargo', 'deny.toml'),
    '--locked',
  ]
  return ['.', 'cargo', 'deny', ...manifest, 'check', ...kinds]
})
if (!offline) {
  checks.push(['.', 'npm', 'audit', '--omit=dev'])
  checks.push(...folders('package-lock.json').map((folder) => [folder, 'npm', 'audit', '--audit-level=high']))
}

const failed = checks.filter(([folder, command, ...args]) => {
  console.log(`\n${folder}: ${command} ${args.join(' ')}`)
  return spawnSync(command, args, { cwd: join(ROOT, folder), stdio: 'inherit' }).status !== 0
})
console.log(`\n${checks.length} checks, ${failed.length} failed`)
for (const [folder, ...words] of failed) {
  console.log(`failed in ${folder}: ${words.join(' ')}`)
}
if (offline) {
  console.log('Not checked: the advisories of crates and of packages')
}
process.exitCode = failed.length > 0 ? 1 : 0

/** The folders of all lock files of a name. */
function folders(name) {
  const files = execFileSync('git', ['ls-files', '-z', name, `**/${name}`], { cwd: ROOT, encoding: 'utf8' })
  return files.split('\0').filter(Boolean).map(dirname)
}
