// `npm run bench:guard` counts instructions by callgrind; this sees to it that there is valgrind, whose part that is.
import { spawnSync } from 'node:child_process'
import { ensure } from './system-packages.mjs'

const version = () => spawnSync('valgrind', ['--version'], { encoding: 'utf8' })

ensure('Counting instructions needs valgrind on the PATH, which works on Linux.', {
  valgrind: () => version().status === 0,
})
console.log(version().stdout.trim())
