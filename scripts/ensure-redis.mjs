// The tests start servers of their own; this sees to it that there is what they need: redis-server, and
// libfaketime, which gives a server a clock that a test can step. What is missing, the system's package
// manager installs if that is possible without asking; otherwise this fails and says what to install. It
// never leaves a test out.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'

const succeeds = (command, words) => spawnSync(command, words, { stdio: 'inherit' }).status === 0
const version = () => spawnSync('redis-server', ['--version'], { encoding: 'utf8' })

/** Where packages put the library: below these, or below a folder there for the machine's kind. */
const LIBRARIES = ['/usr/lib', '/usr/lib64', '/usr/local/lib']

function hasFakeTime() {
  const folders = LIBRARIES.filter((folder) => existsSync(folder)).flatMap((folder) => [
    folder,
    ...readdirSync(folder).map((name) => `${folder}/${name}`),
  ])
  return folders.some((folder) => existsSync(`${folder}/faketime/libfaketime.so.1`))
}

/** What is needed, by the name of its package. */
const NEEDED = { 'redis-server': () => version().status === 0, libfaketime: hasFakeTime }

const missing = Object.keys(NEEDED).filter((name) => !NEEDED[name]())
if (missing.length > 0) {
  const names = missing.join(' ')
  const isRoot = process.getuid?.() === 0
  const hasApt = spawnSync('apt-get', ['--version']).status === 0
  if (!isRoot || !hasApt) {
    console.error(
      'The tests need redis-server 6.2 or later on the PATH, and libfaketime, which works on Linux. ' +
        `Missing: ${names}. Debian, Ubuntu: sudo apt-get install ${names}; Fedora: sudo dnf install redis libfaketime`,
    )
    process.exit(1)
  }
  console.log(`Missing: ${names}: installing`)
  const installed =
    succeeds('apt-get', ['update', '-qq']) &&
    succeeds('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...missing])
  if (!installed || !Object.values(NEEDED).every((isThere) => isThere())) {
    console.error(`apt-get could not install ${names}: install it, and run the tests again`)
    process.exit(1)
  }
}
console.log(version().stdout.trim())
