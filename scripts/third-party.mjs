/**
 * The licences of the code that is compiled into the addon or bundled. A distributor must include
 * their texts.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The names of licence files in crates. */
const PAPERS = /^(licen[cs]e|copying|notice|unlicense)/i

/** The cargo features of the package's parts, by the name of the part in the text. */
const PARTS = {
  'The addon': ['--features', 'node,redis,zones'],
  'The WebAssembly': ['--no-default-features', '--features', 'wasm', '--filter-platform', 'wasm32-unknown-unknown'],
}

const BUNDLE_HEAD = `The command line has these npm packages bundled into it.
`

/**
 * The crates of a part of a folder's package with all of their dependencies, and the texts of their
 * licences, each text once.
 *
 * @throws if cargo fails, or if a crate names no licence.
 */
export function thirdPartyLicenses(root, part) {
  const packages = linked(root, PARTS[part]).map(({ name, version, license, manifest_path }) => {
    return { name, version, license, folder: dirname(manifest_path) }
  })
  const head = `${part} has these crates compiled into it, and the standard library of Rust: MIT OR Apache-2.0.\n`
  return noticeOf(head, packages)
}

/**
 * The npm packages that have files in a bundle, and the texts of their licences.
 *
 * @param {readonly string[]} files The bundle's files, relative to `root`.
 * @throws if a package names no licence, or has no text of it.
 */
export function bundledLicenses(root, files) {
  const folders = files.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0])
  const packages = [...new Set(folders.filter((folder) => folder !== undefined))].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
    return { name, version, license, folder: join(root, folder) }
  })
  return noticeOf(
    BUNDLE_HEAD,
    packages.sort((a, b) => (a.name < b.name ? -1 : 1)),
  )
}

/** The packages with their licences, and the texts of these, each text once. */
function noticeOf(head, packages) {
  const texts = new Map()
  const lines = packages.map(({ name, version, license, folder }) => {
    if (!license) {
      throw new Error(`the package ${name} names no licence`)
    }
    for (const file of readdirSync(folder).filter((file) => PAPERS.test(file))) {
      const text = readFileSync(join(folder, file), 'utf8').replaceAll('\r\n', '\n').trim()
      texts.set(text, [...(texts.get(text) ?? []), name])
    }
    return `${name} ${version}: ${license}`
  })
  const sections = [...texts].map(([text, names]) => `${'-'.repeat(80)}\n${names.join(', ')}\n\n${text}\n`)
  return [head, ...lines, '', ...sections].join('\n')
}

/** All linked crates, by name. Dependencies of builds and of tests are left out. */
function linked(root, features) {
  const args = ['metadata', '--format-version', '1', '--locked', ...features]
  const output = execFileSync('cargo', args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 })
  const { packages, resolve } = JSON.parse(output)
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]))
  const found = new Set()
  const walk = (id) => {
    for (const { pkg, dep_kinds } of nodes.get(id).deps) {
      if (!found.has(pkg) && dep_kinds.some(({ kind }) => kind === null)) {
        found.add(pkg)
        walk(pkg)
      }
    }
  }
  walk(resolve.root)
  return packages.filter(({ id }) => found.has(id)).sort((a, b) => (a.name < b.name ? -1 : 1))
}
