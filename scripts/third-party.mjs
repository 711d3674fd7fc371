/**
 * The code that is compiled into the addon or bundled: the licences, whose texts a distributor must
 * include, and the SBOM.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The names of licence files in packages. */
const PAPERS = /^(licen[cs]e|copying|notice|unlicense)/i

/** The target of the WebAssembly. */
const WASM = 'wasm32-unknown-unknown'

/** The parts of the packages by their names in the texts: cargo features, and the target if there is one. */
const PARTS = {
  'The addon': { features: ['--features', 'node,redis,zones'] },
  'The WebAssembly': { features: ['--no-default-features', '--features', 'wasm,wasm-redis'], target: WASM },
  'The playground': { features: ['--no-default-features', '--features', 'wasm'], target: WASM },
}

/**
 * The crates of a part of the package with all of their dependencies, and the texts of their
 * licences, each text once.
 *
 * @throws if cargo fails, or if a crate names no licence.
 */
export function thirdPartyLicenses(root, part) {
  const { target = 'all' } = PARTS[part]
  const head = `${part} has these crates compiled into it, and the standard library of Rust: MIT OR Apache-2.0.\n`
  // Macros put code into the crates that use them.
  return noticeOf(head, linkedCrates(root, part, target, 'normal'))
}

/**
 * The npm packages that have files in a bundle, and the texts of their licences.
 *
 * @param {readonly string[]} files The bundle's files, relative to `root`.
 * @throws if a package names no licence, or has no text of it.
 */
export function bundledLicenses(root, title, files) {
  const folders = files.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0])
  const packages = [...new Set(folders.filter((folder) => folder !== undefined))].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
    if (papersIn(join(root, folder)).length === 0) {
      throw new Error(`the package ${name} has no text of its licence`)
    }
    return { name, version, license, folder: join(root, folder) }
  })
  return noticeOf(`${title} has these npm packages bundled into it.\n`, packages.sort(byName))
}

/**
 * A software bill of materials in the format CycloneDX: the crates that a part links, and the npm packages of bundles.
 *
 * @param {{ name: string, version: string, license: string }} manifest The package.
 * @param {object} contents
 * @param {string} contents.part The part with crates.
 * @param {string} [contents.target] The target of the addon; other parts have one target.
 * @param {readonly string[]} [contents.notices] The texts of `bundledLicenses`.
 */
export function billOfMaterials(root, manifest, { part, target = PARTS[part].target, notices = [] }) {
  const crates = linkedCrates(root, part, target, 'normal,no-proc-macro')
  const packages = notices.flatMap((notice) => listed(notice)).sort(byName)
  const components = [
    ...crates.map((crate) => component('cargo', crate, [{ alg: 'SHA-256', content: crate.checksum }])),
    ...packages.map((one) => component('npm', one)),
  ]
  const unique = new Map(components.map((one) => [one.purl, one]))
  const bill = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: component('npm', manifest) },
    components: [...unique.values()],
  }
  return `${JSON.stringify(bill, null, 2)}\n`
}

function component(type, { name, version, license }, hashes) {
  const purl = `pkg:${type}/${name.replace('@', '%40')}@${version}`
  // Old manifests separate alternatives by a slash.
  const licenses = [{ expression: license.replaceAll('/', ' OR ') }]
  return { type: 'library', 'bom-ref': purl, name, version, purl, licenses, ...(hashes && { hashes }) }
}

/** The packages with their licences, and the texts of these, each text once. */
function noticeOf(head, packages) {
  const texts = new Map()
  const lines = packages.map(({ name, version, license, folder }) => {
    if (!license) {
      throw new Error(`the package ${name} names no licence`)
    }
    for (const file of papersIn(folder)) {
      const text = readFileSync(join(folder, file), 'utf8').replaceAll('\r\n', '\n').trim()
      texts.set(text, [...(texts.get(text) ?? []), name])
    }
    return `${name} ${version}: ${license}`
  })
  const sections = [...texts].map(([text, names]) => `${'-'.repeat(80)}\n${names.join(', ')}\n\n${text}\n`)
  return [head, ...lines, '', ...sections].join('\n')
}

/** The packages of a text of `noticeOf`. */
function listed(notice) {
  const [list] = notice.split(/^-{80}$/m)
  return [...list.matchAll(/^(\S+) (\S+): (.+)$/gm)].map(([, name, version, license]) => ({ name, version, license }))
}

function papersIn(folder) {
  return readdirSync(folder).filter((file) => PAPERS.test(file))
}

/**
 * The crates that a part links, by name. `cargo tree` resolves the features as a build does; the
 * dependencies of builds and of tests are left out.
 */
function linkedCrates(root, part, target, edges) {
  const cargo = (...args) => execFileSync('cargo', args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 })
  const line = ['--prefix', 'none', '--format', '{p}', '--edges', edges, '--target', target]
  const tree = cargo('tree', '--locked', '--package', 'tollgate', ...PARTS[part].features, ...line)
  const linked = new Set([...tree.matchAll(/^(\S+) v(\S+)/gm)].map(([, name, version]) => `${name} ${version}`))
  const checksums = new Map(
    [
      ...readFileSync(join(root, 'Cargo.lock'), 'utf8').matchAll(
        /name = "(.*)"\nversion = "(.*)"\n.*\nchecksum = "(.*)"/g,
      ),
    ].map(([, name, version, checksum]) => [`${name} ${version}`, checksum]),
  )
  const { packages } = JSON.parse(cargo('metadata', '--format-version', '1', '--locked', ...PARTS[part].features))
  return packages
    .map(({ name, version, license, manifest_path }) => {
      return { name, version, license, folder: dirname(manifest_path), checksum: checksums.get(`${name} ${version}`) }
    })
    .filter(({ name, version, checksum }) => checksum !== undefined && linked.has(`${name} ${version}`))
    .sort(byName)
}

function byName({ name: a }, { name: b }) {
  return a < b ? -1 : a > b ? 1 : 0
}
