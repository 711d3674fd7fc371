/**
 * Sees to it that the system has what tests and benchmarks start. What is missing, the system's package manager installs
 * if that is possible without asking; otherwise the process ends, having said what to install. Nothing is ever left out.
 */
import { spawnSync } from 'node:child_process'

const succeeds = (command, words) => spawnSync(command, words, { stdio: 'inherit' }).status === 0

/**
 * @param {string} needs The sentence that says who needs what.
 * @param {Record<string, () => boolean>} packages By the name that Debian has for it: whether it is there.
 * @param {string} [fedora] What Fedora calls them, if otherwise.
 */
export function ensure(needs, packages, fedora) {
  const missing = Object.keys(packages).filter((name) => !packages[name]())
  if (missing.length === 0) {
    return
  }
  const names = missing.join(' ')
  const isRoot = process.getuid?.() === 0
  const hasApt = spawnSync('apt-get', ['--version']).status === 0
  if (!isRoot || !hasApt) {
    console.error(
      `${needs} Missing: ${names}. ` +
        `Debian, Ubuntu: sudo apt-get install ${names}; Fedora: sudo dnf install ${fedora ?? names}`,
    )
    process.exit(1)
  }
  console.log(`Missing: ${names}: installing`)
  const installed =
    succeeds('apt-get', ['update', '-qq']) &&
    succeeds('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...missing])
  if (!installed || !Object.values(packages).every((isThere) => isThere())) {
    console.error(`apt-get could not install ${names}: install it, and try again`)
    process.exit(1)
  }
}
