// The tests open the playground and HTML reports in a headless Chromium of the system, driven by
// playwright-core. This script installs Chromium if it is missing. With `--path` it prints the
// browser's path in its last line.
import { spawnSync } from 'node:child_process'
import { ensure } from './system-packages.mjs'

/** The command names of Chromium on different systems, the most common first. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'chrome']

/**
 * The version that a command prints; `undefined` if the command does not exist or does not start.
 */
function versionOf(command) {
  const { status, stdout } = spawnSync(command, ['--version'], { encoding: 'utf8' })
  // Without the snap, `chromium-browser` on Ubuntu only prints where to get it.
  return status === 0 && /\bChrom(e|ium)\b.* \d+\./.test(stdout) ? stdout.trim() : undefined
}

/**
 * The path of the browser, found on the PATH. The environment variable CHROMIUM_PATH overrides it.
 */
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
