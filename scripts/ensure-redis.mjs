// The tests start servers of their own. This script installs their programs if they are missing:
// redis-server, and libfaketime, which gives a server a clock that a test can step.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { ensure } from './system-packages.mjs'

const version = () => spawnSync('redis-server', ['--version'], { encoding: 'utf8' })

/**
 * The folders of the library: packages install it here, or in a subfolder for the machine's
 * architecture.
 */
const LIBRARIES = ['/usr/lib', '/usr/lib64', '/usr/local/lib']

function hasFakeTime() {
  const folders = LIBRARIES.filter((folder) => existsSync(folder)).flatMap((folder) => [
    folder,
    ...readdirSync(folder).map((name) => `${folder}/${name}`),
  ])
  return folders.some((folder) => existsSync(`${folder}/faketime/libfaketime.so.1`))
}

ensure(
  'The tests need redis-server 6.2 or later on the PATH, and libfaketime, which works on Linux.',
  { 'redis-server': () => version().status === 0, libfaketime: hasFakeTime },
  'redis libfaketime',
)
console.log(version().stdout.trim())
