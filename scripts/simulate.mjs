/**
 * Plays the Redis path of the engine in virtual time: see simulation/README.md.
 *
 *     npm run simulate -- --seeds 10000 [--from N]   many seeds; prints those that fail
 *     npm run simulate -- --seed 17                  one seed; prints what happens
 *     npm run simulate -- --checks                   the simulation's own format, lint and tests
 */
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Cargo reads the settings of this folder only if it runs in it.
const FOLDER = join(dirname(dirname(fileURLToPath(import.meta.url))), 'simulation')

const args = process.argv.slice(2)
const commands = args.includes('--checks')
  ? [
      ['fmt', '--check'],
      ['clippy', '--release', '--locked', '--all-targets', '--', '-D', 'warnings'],
      ['test', '--release', '--locked'],
    ]
  : [['run', '--release', '--locked', '--quiet', '--', ...args]]
for (const command of commands) {
  const { status } = spawnSync('cargo', command, { cwd: FOLDER, stdio: 'inherit' })
  if (status !== 0) {
    process.exit(status ?? 1)
  }
}
