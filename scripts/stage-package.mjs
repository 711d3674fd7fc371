/**
 * Creates the folders that a release publishes: one for the main package, one for the command line, and
 * one for each platform with an addon. The tarball tests install the same folders.
 *
 *     node scripts/stage-package.mjs [--out DIR] [--addons DIR] [--complete] [--repository URL]
 *
 * --out         an empty or new output folder; default: stage/
 * --addons      the folder of the *.node files; default: generated/
 * --complete    fails unless every platform's addon exists. A release needs it: otherwise it could
 *               publish a package that cannot be loaded on some platform
 * --repository  the URL of the sources, such as https://github.com/OWNER/NAME; default: that of package.json.
 *               It is written into the manifests: npm accepts provenance only from the repository that
 *               they name. The links of the READMEs lead there
 *
 * It replaces `napi artifacts` and `napi pre-publish`, which require every addon, write into npm/*,
 * and publish.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { parseTriple } from '@napi-rs/cli'
import { install } from './install.mjs'
import { billOfMaterials, thirdPartyLicenses } from './third-party.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** The package of the command line: its name, and the folder of its manifest. */
const CLI = { name: 'tollgate-cli', folder: 'npm/cli' }

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
    addons: { type: 'string', default: join(ROOT, 'generated') },
    complete: { type: 'boolean', default: false },
    repository: { type: 'string' },
  },
})

/** The address of the sources, as browsers show it. */
const repository = options.repository ?? readManifest(ROOT).repository.url.replace(/^git\+|\.git$/g, '')

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
  stageCli(join(out, CLI.name), manifest)
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
  copyAll(ROOT, [...manifest.files, 'LICENSE'], folder)
  rmSync(join(folder, 'dist', 'cli'), { recursive: true })
  requireEntryPoints(folder, manifest.exports)
  stageReadme(ROOT, folder, manifest.version)
  writeFileSync(join(folder, THIRD_PARTY), thirdPartyLicenses(ROOT, 'The WebAssembly'))
  writeFileSync(join(folder, BILL), billOfMaterials(ROOT, manifest, { part: 'The WebAssembly' }))
  published.files = [...manifest.files, THIRD_PARTY, BILL]
  writeManifest(folder, published)
  report(folder, published)
}

/** The command line, with the playground that it serves. It depends on the main package at its own version. */
function stageCli(folder, { version }) {
  const source = join(ROOT, CLI.folder)
  const manifest = readManifest(source)
  requireVersion(manifest, version, `npm version --no-git-tag-version ${version} --prefix ${CLI.folder}`)
  copyAll(ROOT, ['dist/cli', 'LICENSE'], folder)
  stagePlayground(join(folder, 'dist', 'playground'), version)
  stageReadme(source, folder, version)
  writeFileSync(join(folder, THIRD_PARTY), thirdPartyLicenses(ROOT, 'The playground'))
  const notices = ['dist/cli/THIRD-PARTY-LICENSES.txt', 'dist/playground/licences.txt'].map((name) =>
    readFileSync(join(folder, name), 'utf8'),
  )
  writeFileSync(join(folder, BILL), billOfMaterials(ROOT, manifest, { part: 'The playground', notices }))
  const published = { ...manifest, dependencies: { tollgate: version }, files: [...manifest.files, THIRD_PARTY, BILL] }
  writeManifest(folder, published)
  report(folder, published)
}

/** The playground, which `npx tollgate-cli playground` serves. Its page needs packages of its own to build. */
function stagePlayground(folder, version) {
  install('examples/playground/view')
  const words = [join(ROOT, 'examples', 'playground', 'build.mjs'), folder, '--docs', addressOf('docs/*.md', version)]
  execFileSync('node', words, { stdio: ['ignore', 'ignore', 'inherit'] })
  cpSync(join(ROOT, 'examples', 'playground', 'serve.mjs'), join(folder, 'serve.mjs'))
}

/**
 * A README whose links lead to the sources of the version's tag: npm's site shows it, but the package has no
 * other page. Images need the address of the file itself.
 */
function stageReadme(source, folder, version) {
  const place = relative(ROOT, source).replaceAll('\\', '/')
  const text = readFileSync(join(source, 'README.md'), 'utf8')
  const absolute = text.replace(/(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)/g, (_, image, label, path) => {
    return `${image}${label}(${addressOf(posix.join(place, path), version, image === '' ? 'blob' : 'raw')})`
  })
  writeFileSync(join(folder, 'README.md'), absolute)
}

/** The address of a file of the repository at the tag of a version. */
function addressOf(path, version, kind = 'blob') {
  return `${repository}/${kind}/v${version}/${path}`
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
  copyAll(ROOT, ['LICENSE'], folder)
  copyAll(addons, [addon], folder)
  stageReadme(source, folder, manifest.version)
  writeFileSync(join(folder, THIRD_PARTY), licenses)
  writeFileSync(join(folder, BILL), billOfMaterials(ROOT, manifest, { part: 'The addon', target }))
  writeManifest(folder, { ...manifest, files: [...manifest.files, THIRD_PARTY, BILL] })
  report(folder, manifest)
}

/** The platform packages of npm/*, checked against the main package. */
function readPlatforms(manifest) {
  const targets = Object.fromEntries(
    manifest.napi.targets.map((target) => [parseTriple(target).platformArchABI, target]),
  )
  const folders = readdirSync(join(ROOT, 'npm')).filter((folder) => `npm/${folder}` !== CLI.folder)
  const platforms = folders.map((folder) => {
    const source = join(ROOT, 'npm', folder)
    const { name, version, main } = readManifest(source)
    requireVersion({ name, version }, manifest.version, 'npx napi version')
    return { source, name, version, addon: main, target: targets[folder] }
  })
  const { length } = manifest.napi.targets
  if (platforms.length !== length || platforms.some(({ target }) => target === undefined)) {
    throw new Error(`npm/ has ${platforms.length} platforms, package.json ${length}: run \`npx napi create-npm-dirs\``)
  }
  return platforms
}

/** All packages have the version of the main package. */
function requireVersion({ name, version }, main, command) {
  if (version !== main) {
    throw new Error(`${name} is at ${version}, tollgate at ${main}: run \`${command}\``)
  }
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

/** The published manifest. */
function writeManifest(folder, manifest) {
  const addresses = {
    homepage: `${repository}#readme`,
    bugs: `${repository}/issues`,
    repository: { ...manifest.repository, url: `git+${repository}.git` },
  }
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
