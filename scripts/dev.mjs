/**
 * Watches the sources. After each change it builds what is stale, and runs the affected tests.
 *
 *     npm run dev                 the tests that depend on the change
 *     npm run dev -- PATTERN...   the tests whose paths match, after any change
 *
 * After a change of the engine (src/, lua/) its unit tests run before those of Jest. Folders that
 * are created later are not watched.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { watch } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const WATCHED = ['src', 'lua', 'ts', '__tests__', 'tests/engine']
const SOURCE = /\.(rs|lua|m?ts|mjs|cjs)$/
const ENGINE = /^(src|lua)\//

/** Editors write a file in several steps. */
const QUIET_MS = 200

const patterns = process.argv.slice(2)
const changed = new Set()
let timer
let isBusy = false

// Not recursively, which would watch all packages, too.
const sources = execFileSync('git', ['ls-files', '-z', ...WATCHED], { cwd: ROOT, encoding: 'utf8' }).split('\0')
const folders = new Set(sources.filter(Boolean).map((file) => dirname(file)))
for (const folder of folders) {
  watch(join(ROOT, folder), (_, name) => {
    const file = `${folder}/${name}`
    if (SOURCE.test(file)) {
      changed.add(file)
      clearTimeout(timer)
      timer = setTimeout(work, QUIET_MS)
    }
  })
}
console.log(`Watching ${WATCHED.join(', ')}; Ctrl-C ends it`)
if (spawnSync(process.execPath, [join(ROOT, 'scripts', 'build.mjs')], { stdio: 'inherit' }).status === 0) {
  console.log('Ready')
}

async function work() {
  if (isBusy) {
    return
  }
  isBusy = true
  while (changed.size > 0) {
    const files = [...changed]
    changed.clear()
    console.log(`\nChanged: ${files.join(', ')}`)
    const isWell = await check(files)
    console.log(isWell ? 'Passed' : 'Failed')
  }
  isBusy = false
}

async function check(files) {
  const isEngine = files.some((file) => ENGINE.test(file))
  if (isEngine && !(await run('cargo', ['test', '--quiet', '--lib']))) {
    return false
  }
  if (files.every((file) => file.startsWith('tests/engine/'))) {
    const modules = files.map((file) => file.replace(/^tests\/engine\/|\.rs$/g, '').replaceAll('/', '::'))
    return run('cargo', ['test', '--quiet', '--test', 'engine', '--', ...modules])
  }
  // TypeScript loads the engine through ts/backends/addon.ts.
  const sources = [
    ...files.filter((file) => /^(ts|__tests__)\//.test(file)),
    ...(isEngine ? ['ts/backends/addon.ts'] : []),
  ]
  const chosen = patterns.length > 0 ? patterns : ['--quick', '--findRelatedTests', ...sources]
  return run(process.execPath, [join(ROOT, 'scripts', 'jest.mjs'), ...chosen])
}

function run(command, args) {
  const child = spawn(command, args, { cwd: ROOT, stdio: 'inherit' })
  return new Promise((resolve) => {
    child.once('error', () => resolve(false))
    child.once('exit', (code) => resolve(code === 0))
  })
}
