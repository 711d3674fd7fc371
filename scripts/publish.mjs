/**
 * Publishes what scripts/stage-package.mjs has staged: the platforms' packages first, so that the main one never
 * asks for what is not there. What is there already is left out, so a release that broke off is run again.
 *
 *     node scripts/publish.mjs [--from DIR] [--dry-run]
 *
 * --from     where the staged packages are; default: stage/
 * --dry-run  say what would be published, and publish nothing
 *
 * It runs in .github/workflows/release.yml: provenance can only be had there.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const MAIN = 'tollgate'

const { values: options } = parseArgs({
  options: {
    from: { type: 'string', default: join(ROOT, 'stage') },
    'dry-run': { type: 'boolean', default: false },
  },
})

try {
  publishAll(resolve(options.from))
} catch (error) {
  console.error(`publish: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}

function publishAll(stage) {
  const main = readManifest(join(stage, MAIN))
  const wanted = main.optionalDependencies
  requireComplete(stage, main, wanted)
  for (const name of [...Object.keys(wanted), MAIN]) {
    publish(join(stage, name), `${name}@${main.version}`, main.version)
  }
}

/** A main package that asks for what nobody has published cannot be taken back. */
function requireComplete(stage, main, wanted) {
  const names = Object.keys(wanted)
  const missing = names.filter((name) => !existsSync(join(stage, name)))
  if (missing.length > 0) {
    throw new Error(`not staged: ${missing.join(', ')}`)
  }
  const strange = readdirSync(stage).filter((name) => name !== MAIN && !names.includes(name))
  if (strange.length > 0) {
    throw new Error(`nobody asks for ${strange.join(', ')}`)
  }
  const others = names.filter((name) => readManifest(join(stage, name)).version !== main.version)
  if (others.length > 0) {
    throw new Error(`not at ${main.version}: ${others.join(', ')}`)
  }
}

function publish(folder, id, version) {
  // Who asks for no version must not get one that is only for trial.
  const tag = version.includes('-') ? 'next' : 'latest'
  if (options['dry-run']) {
    console.log(`would publish ${id} as ${tag}`)
  } else if (isPublished(id)) {
    console.log(`${id} is there already`)
  } else {
    console.log(`publishing ${id} as ${tag}`)
    const words = ['publish', folder, '--provenance', '--access', 'public', '--ignore-scripts', '--tag', tag]
    if (spawnSync('npm', words, { stdio: 'inherit' }).status !== 0) {
      throw new Error(`npm could not publish ${id}`)
    }
  }
}

/** Any failure to find out is a failure: a version that is published twice is an error of npm's anyway. */
function isPublished(id) {
  const { status, stdout, stderr } = spawnSync('npm', ['view', id, 'version', '--json'], { encoding: 'utf8' })
  if (status === 0) {
    return stdout.trim() !== ''
  }
  if (/\bE404\b/.test(stdout + stderr)) {
    return false
  }
  throw new Error(`npm could not tell whether ${id} is published: ${stderr.trim()}`)
}

function readManifest(folder) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
}
