/**
 * Checks that the system has the programs that tests and benchmarks start. Missing ones are
 * installed by the system's package manager, if that works without a password. Otherwise the
 * process prints the packages to install, and exits. Nothing is skipped.
 */
import { spawnSync } from 'node:child_process'

const succeeds = (command, args) => spawnSync(command, args, { stdio: 'inherit' }).status === 0

/**
 * @param {string} needs The sentence that explains the requirement.
 * @param {Record<string, () => boolean>} packages A check for each Debian package: whether it is
 * installed.
 * @param {string} [fedora] The names of the packages in Fedora, if they differ.
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
