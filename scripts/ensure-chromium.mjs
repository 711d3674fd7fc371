// The tests look at the playground, and at reports in HTML, in a real browser without a window: Chromium of the system,
// which playwright-core drives. This sees to it that there is one; with `--path` it tells, in its last line, where that is.
import { spawnSync } from 'node:child_process'
import { ensure } from './system-packages.mjs'

/** The names under which systems have it, the most usual first. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'chrome']

/** What a command says of itself; `undefined` if there is no such command, or if it does not start. */
function versionOf(command) {
  const { status, stdout } = spawnSync(command, ['--version'], { encoding: 'utf8' })
  // `chromium-browser` is there on Ubuntu without its snap, too: it says where to get it.
  return status === 0 && /\bChrom(e|ium)\b.* \d+\./.test(stdout) ? stdout.trim() : undefined
}

/** The command that starts the browser, as found on the PATH; CHROMIUM_PATH in the environment names another. */
function pathOf() {
  const { CHROMIUM_PATH } = process.env
  const names = CHROMIUM_PATH ? [CHROMIUM_PATH] : NAMES
  const name = names.find((candidate) => versionOf(candidate) !== undefined)
  if (name === undefined || name.includes('/')) {
    return name
  }
  return spawnSync('sh', ['-c', 'command -v "$0"', name], { encoding: 'utf8' }).stdout.trim()
}

ensure('The tests need Chromium or Chrome on the PATH, or its path in CHROMIUM_PATH.', {
  chromium: () => pathOf() !== undefined,
})
console.log(process.argv[2] === '--path' ? pathOf() : versionOf(pathOf()))
