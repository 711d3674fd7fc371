// `npm run bench:guard` counts instructions with callgrind, a part of valgrind. This script
// installs valgrind if it is missing.
import { spawnSync } from 'node:child_process'
import { ensure } from './system-packages.mjs'

const version = () => spawnSync('valgrind', ['--version'], { encoding: 'utf8' })

ensure('Counting instructions needs valgrind on the PATH, which works on Linux.', {
  valgrind: () => version().status === 0,
})
console.log(version().stdout.trim())
