/**
 * Plays the Redis path in virtual time: see tests/simulation/README.md.
 *
 *     npm run simulate -- --seeds 10000 [--from N]   many seeds; prints those that fail
 *     npm run simulate -- --seed 17                  one seed; prints what happens
 *     npm run simulate -- --checks                   the simulation's own format, lint and tests
 *
 * --part connections   only the engine's connections, in Rust
 * --part calls         only what decides calls above them, in TypeScript
 */
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from './build.mjs'

// Cargo reads the settings of this folder only if it runs in it.
const FOLDER = join(dirname(dirname(fileURLToPath(import.meta.url))), 'tests', 'simulation')

const args = process.argv.slice(2)
const at = args.indexOf('--part')
const [, part] = at < 0 ? [] : args.splice(at, 2)
if (at >= 0 && part !== 'connections' && part !== 'calls') {
  throw new Error(`--part must be connections or calls, got ${part}`)
}
const cargo = (...words) => ['cargo', [...words.slice(0, 1), '--release', '--locked', ...words.slice(1)]]
const steps = {
  connections: {
    checks: [
      ['cargo', ['fmt', '--all', '--check']],
      cargo('clippy', '--workspace', '--all-targets', '--', '-D', 'warnings'),
      cargo('test', '--workspace'),
    ],
    play: [cargo('run', '--quiet', '--', ...args)],
  },
  calls: {
    checks: [
      cargo('build', '--quiet', '--package', 'tollgate-simulation-addon'),
      ['node', ['--test', 'calls/calls.test.mjs']],
    ],
    play: [cargo('build', '--quiet', '--package', 'tollgate-simulation-addon'), ['node', ['calls/main.mjs', ...args]]],
  },
}
let isFailed = false
for (const name of part === undefined ? Object.keys(steps) : [part]) {
  if (name === 'calls') {
    build({ wasm: true })
  }
  if (part === undefined) {
    console.log(`${name}:`)
  }
  for (const [command, words] of steps[name][args.includes('--checks') ? 'checks' : 'play']) {
    isFailed ||= spawnSync(command, words, { cwd: FOLDER, stdio: 'inherit' }).status !== 0
  }
}
process.exit(isFailed ? 1 : 0)
