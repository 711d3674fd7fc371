/**
 * Publishes the packages of scripts/stage-package.mjs: the platforms' packages, the main package and the
 * command line, in this order, so that none depends on a missing one. Published packages are skipped, so an
 * interrupted release can be run again.
 *
 *     node scripts/publish.mjs [--from DIR] [--dry-run]
 *
 * --from     the folder of the staged packages; default: stage/
 * --dry-run  prints what would be published, and publishes nothing
 *
 * It runs in .github/workflows/release.yml: provenance requires that.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const MAIN = 'tollgate'
const CLI = 'tollgate-cli'

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
  const required = main.optionalDependencies
  requireComplete(stage, main, required)
  for (const name of [...Object.keys(required), MAIN, CLI]) {
    publish(join(stage, name), `${name}@${main.version}`, main.version)
  }
}

/** A main package that depends on an unpublished package could not be taken back. */
function requireComplete(stage, main, required) {
  const names = [...Object.keys(required), CLI]
  const missing = names.filter((name) => !existsSync(join(stage, name)))
  if (missing.length > 0) {
    throw new Error(`not staged: ${missing.join(', ')}`)
  }
  const strange = readdirSync(stage).filter((name) => name !== MAIN && !names.includes(name))
  if (strange.length > 0) {
    throw new Error(`no manifest depends on ${strange.join(', ')}`)
  }
  const others = names.filter((name) => readManifest(join(stage, name)).version !== main.version)
  if (others.length > 0) {
    throw new Error(`not at ${main.version}: ${others.join(', ')}`)
  }
  if (readManifest(join(stage, CLI)).dependencies[MAIN] !== main.version) {
    throw new Error(`${CLI} does not depend on ${MAIN}@${main.version}`)
  }
}

function publish(folder, id, version) {
  // An install without a version must not get a prerelease.
  const tag = version.includes('-') ? 'next' : 'latest'
  if (options['dry-run']) {
    console.log(`would publish ${id} as ${tag}`)
  } else if (isPublished(id)) {
    console.log(`${id} is already published`)
  } else {
    console.log(`publishing ${id} as ${tag}`)
    const args = ['publish', folder, '--provenance', '--access', 'public', '--ignore-scripts', '--tag', tag]
    if (spawnSync('npm', args, { stdio: 'inherit' }).status !== 0) {
      throw new Error(`npm could not publish ${id}`)
    }
  }
}

/** Any other failure is an error. If the version is published already, npm itself rejects it. */
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
