/**
 * Creates the folders that a release publishes: one for the main package, and one for each platform
 * with an addon. The tarball tests install the same folders.
 *
 *     node scripts/stage-package.mjs [--out DIR] [--addons DIR] [--complete] [--repository URL]
 *
 * --out         an empty or new output folder; default: stage/
 * --addons      the folder of the *.node files; default: the root of the repository
 * --complete    fails unless every platform's addon exists. A release needs it: otherwise it could
 *               publish a package that cannot be loaded on some platform
 * --repository  the URL of the sources, such as https://github.com/OWNER/NAME. It is written into
 *               the manifests: npm accepts provenance only from the repository that they name
 *
 * It replaces `napi artifacts` and `napi pre-publish`, which require every addon, write into npm/*,
 * and publish.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { parseTriple } from '@napi-rs/cli'
import { install } from './install.mjs'
import { billOfMaterials, thirdPartyLicenses } from './third-party.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** The files that npm publishes whether or not `files` lists them. */
const ALWAYS_PUBLISHED = ['README.md', 'LICENSE']

/** The licences of the crates that are compiled into the addon or into WebAssembly. */
const THIRD_PARTY = 'THIRD-PARTY-LICENSES.txt'

/** The software bill of materials, which lists the crates and the bundled packages. */
const BILL = 'sbom.cdx.json'

/**
 * The manifest fields that only this repository needs. Without scripts, installing the copy builds
 * nothing.
 */
const NOT_PUBLISHED = ['scripts', 'devDependencies', 'napi']

const { values: options } = parseArgs({
  options: {
    out: { type: 'string', default: join(ROOT, 'stage') },
    addons: { type: 'string', default: ROOT },
    complete: { type: 'boolean', default: false },
    repository: { type: 'string' },
  },
})

try {
  stage(resolve(options.out), resolve(options.addons), options.complete)
} catch (error) {
  console.error(`stage-package: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}

function stage(out, addons, complete) {
  requireEmpty(out)
  const manifest = readManifest(ROOT)
  const platforms = readPlatforms(manifest)
  const ready = platforms.filter(({ addon }) => existsSync(join(addons, addon)))
  const missing = platforms.filter((platform) => !ready.includes(platform))
  if (missing.length > 0 && complete) {
    throw new Error(`no addon in ${shown(addons)} for: ${missing.map(({ name }) => name).join(', ')}`)
  }
  stageMain(join(out, manifest.name), manifest, platforms)
  const licenses = thirdPartyLicenses(ROOT, 'The addon')
  for (const platform of ready) {
    stagePlatform(join(out, platform.name), platform, addons, licenses)
  }
  for (const { name } of missing) {
    console.log(`skipped ${name}: its addon does not exist`)
  }
}

/** The main package. It depends on every platform's package at its own version. */
function stageMain(folder, manifest, platforms) {
  const published = Object.fromEntries(Object.entries(manifest).filter(([field]) => !NOT_PUBLISHED.includes(field)))
  published.optionalDependencies = Object.fromEntries(platforms.map(({ name }) => [name, manifest.version]))
  copyAll(ROOT, [...manifest.files, ...ALWAYS_PUBLISHED], folder)
  requireEntryPoints(folder, manifest.exports)
  stagePlayground(join(folder, 'dist', 'playground'), `v${manifest.version}`)
  writeFileSync(join(folder, THIRD_PARTY), thirdPartyLicenses(ROOT, 'The WebAssembly'))
  const notices = ['dist/cli/THIRD-PARTY-LICENSES.txt', 'dist/playground/licences.txt'].map((name) =>
    readFileSync(join(folder, name), 'utf8'),
  )
  writeFileSync(join(folder, BILL), billOfMaterials(ROOT, manifest, undefined, notices))
  if (options.repository !== undefined) {
    const readme = join(folder, 'README.md')
    writeFileSync(readme, withAbsoluteLinks(readFileSync(readme, 'utf8'), `v${manifest.version}`))
  }
  published.files = [...manifest.files, THIRD_PARTY, BILL]
  writeManifest(folder, published)
  report(folder, published)
}

/** The playground, which `npx tollgate playground` serves. Its page needs packages of its own to build. */
function stagePlayground(folder, tag) {
  install('examples/playground/view')
  const links = options.repository === undefined ? [] : ['--docs', `${options.repository}/blob/${tag}/docs/*.md`]
  const words = [join(ROOT, 'examples', 'playground', 'build.mjs'), folder, ...links]
  execFileSync('node', words, { stdio: ['ignore', 'ignore', 'inherit'] })
  cpSync(join(ROOT, 'examples', 'playground', 'serve.mjs'), join(folder, 'serve.mjs'))
}

/**
 * A page whose links lead to the sources of a tag: npm's site shows the README, but the package has
 * no other page. Images need the address of the file itself.
 */
function withAbsoluteLinks(markdown, tag) {
  return markdown.replace(/(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)/g, (_, image, text, path) => {
    return `${image}${text}(${options.repository}/${image === '' ? 'blob' : 'raw'}/${tag}/${path})`
  })
}

/** A development build may lack some files: dist/ is then without WebAssembly. */
function requireEntryPoints(folder, entry) {
  if (typeof entry === 'object') {
    for (const target of Object.values(entry)) requireEntryPoints(folder, target)
  } else if (entry !== './package.json' && !existsSync(join(folder, entry))) {
    throw new Error(`${entry} is missing: run \`npm run build\``)
  }
}

/** A platform's package: one addon with its licences. */
function stagePlatform(folder, { source, addon, target }, addons, licenses) {
  const manifest = readManifest(source)
  copyAll(source, ['README.md'], folder)
  copyAll(ROOT, ['LICENSE'], folder)
  copyAll(addons, [addon], folder)
  writeFileSync(join(folder, THIRD_PARTY), licenses)
  writeFileSync(join(folder, BILL), billOfMaterials(ROOT, manifest, target))
  writeManifest(folder, { ...manifest, files: [...manifest.files, THIRD_PARTY, BILL] })
  report(folder, manifest)
}

/** The platform packages of npm/*, checked against the main package. */
function readPlatforms(manifest) {
  const targets = Object.fromEntries(
    manifest.napi.targets.map((target) => [parseTriple(target).platformArchABI, target]),
  )
  const platforms = readdirSync(join(ROOT, 'npm')).map((folder) => {
    const source = join(ROOT, 'npm', folder)
    const { name, version, main } = readManifest(source)
    if (version !== manifest.version) {
      throw new Error(`${name} is at ${version}, ${manifest.name} at ${manifest.version}: run \`npx napi version\``)
    }
    return { source, name, version, addon: main, target: targets[folder] }
  })
  const { length } = manifest.napi.targets
  if (platforms.length !== length || platforms.some(({ target }) => target === undefined)) {
    throw new Error(`npm/ has ${platforms.length} platforms, package.json ${length}: run \`npx napi create-npm-dirs\``)
  }
  return platforms
}

/** npm would publish without missing files, and would not report them. */
function copyAll(from, names, to) {
  const missing = names.filter((name) => !existsSync(join(from, name)))
  if (missing.length > 0) {
    throw new Error(`${shown(from)} has no ${missing.join(', no ')}`)
  }
  mkdirSync(to, { recursive: true })
  for (const name of names) {
    cpSync(join(from, name), join(to, name), { recursive: true })
  }
}

/** A stale file in the folder would be published. */
function requireEmpty(folder) {
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new Error(`${shown(folder)} is not empty`)
  }
}

function readManifest(folder) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
}

/** The published manifest. Only a release knows its repository. */
function writeManifest(folder, manifest) {
  const { repository: url } = options
  const addresses =
    url === undefined
      ? {}
      : { homepage: `${url}#readme`, bugs: `${url}/issues`, repository: { type: 'git', url: `git+${url}.git` } }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify({ ...manifest, ...addresses }, null, 2)}\n`)
}

/** With the sizes that npm shows, in kB of 1000 bytes. */
function report(folder, { name, version }) {
  const shell = process.platform === 'win32'
  const output = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: folder,
    encoding: 'utf8',
    shell,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [{ size, unpackedSize }] = JSON.parse(output)
  const kilobytes = (bytes) => Math.round(bytes / 1000)
  const sizes = `${kilobytes(size)} kB packed, ${kilobytes(unpackedSize)} kB unpacked`
  console.log(`staged ${shown(folder)}: ${name} at ${version}: ${sizes}`)
}

function shown(folder) {
  return relative(process.cwd(), folder) || 'this folder'
}
