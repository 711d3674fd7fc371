// The tests start their own redis-server; this sees to it that there is one to start. Where it is
// missing, the system's package manager installs it if that is possible without asking; otherwise
// this fails and says what to install. It never leaves a test out.
import { spawnSync } from 'node:child_process'

const found = () => spawnSync('redis-server', ['--version'], { encoding: 'utf8' })
const succeeds = (command, words) => spawnSync(command, words, { stdio: 'inherit' }).status === 0

if (found().status !== 0) {
  const isRoot = process.getuid?.() === 0
  const hasApt = spawnSync('apt-get', ['--version']).status === 0
  if (!isRoot || !hasApt) {
    const how = 'Debian, Ubuntu: sudo apt-get install redis-server; macOS: brew install redis'
    console.error(`The tests need redis-server 6.2 or later on the PATH. ${how}`)
    process.exit(1)
  }
  console.log('redis-server is missing: installing it')
  const installed =
    succeeds('apt-get', ['update', '-qq']) &&
    succeeds('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'redis-server'])
  if (!installed || found().status !== 0) {
    console.error('apt-get could not install redis-server: install it, and run the tests again')
    process.exit(1)
  }
}
console.log(found().stdout.trim())
