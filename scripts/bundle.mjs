/**
 * Bundles `ts/` into `dist/`: a file for each entry point of package.json, one for the command line (the
 * package tollgate-cli), and five with the modules that several of these share. Each of the shared modules
 * exists once, so that all entry points have the same classes, whether a program imports or requires them.
 * No bundler removes parts of a CommonJS module, so modules of only a few entry points are in a file of their own.
 *
 * - `dist/shared.js`: shared modules of all entry points. The middleware needs only these.
 * - `dist/limiter.js`: shared modules of the entry points that have an engine, `tollgate` and `tollgate/wasm`.
 * - `dist/outgoing.js`: shared modules of `tollgate/client` and `tollgate/mcp` alone.
 * - `dist/core.js`: shared modules that need the addon, and its loader. They are not in `dist/index.js`, because
 *   for an `import` Node.js searches the whole text of that file for the names of exports.
 * - `dist/wasm/engine.js`: the engine as WebAssembly.
 *
 * Node.js loads six files for `tollgate` and `tollgate/express`, one of which is the addon.
 */
import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { pruneDeclarations } from './declarations.mjs'
import { bundledLicenses } from './third-party.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const SOURCES = join(ROOT, 'ts')
const DIST = join(ROOT, 'dist')
/** The loader of the addon. */
const NATIVE = 'generated/native.js'
const CLI = 'cli/main'
/** Chosen by a variable of the environment, so that no module imports it. */
const ENGINE = 'wasm/engine/engine'

/** The entry points, as paths below `ts/` without the extension. */
const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const entries = Object.values(exports)
  .filter((entry) => typeof entry === 'object')
  .map((entry) => entry.require.default.replace(/^\.\/dist\/(.*)\.js$/, '$1'))

const common = { bundle: true, legalComments: 'none', metafile: true, logLevel: 'warning' }
const forNode = { ...common, platform: 'node', target: 'node20', format: 'cjs', keepNames: false }

/** The path of a module below `ts/`, without the extension; `undefined` for another file. */
function moduleOf(file) {
  const path = relative(SOURCES, file).replaceAll(sep, '/')
  return path.startsWith('..') ? undefined : path.replace(/\.[jt]s$/, '')
}

/** Imports of files outside `ts/`, as the bundle in `outfile` reaches them; and of packages. */
function outside(outfile) {
  return {
    name: 'outside',
    setup({ onResolve }) {
      const external = (file) => {
        const path = relative(dirname(outfile), file).replaceAll(sep, '/')
        return { path: path.startsWith('.') ? path : `./${path}`, external: true }
      }
      onResolve({ filter: /\.node$/ }, ({ path, resolveDir }) => external(resolve(resolveDir, path)))
      onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir }) => {
        const file = resolve(resolveDir, path)
        const isPackage = resolveDir.includes('node_modules')
        const isBundled = isPackage || moduleOf(file) !== undefined || file === join(ROOT, NATIVE)
        return isBundled ? undefined : external(file)
      })
      onResolve({ filter: /^[^./]/ }, ({ path, importer }) =>
        importer.includes(`${sep}cli${sep}`) || importer.includes('node_modules')
          ? undefined
          : { path, external: true },
      )
    },
  }
}

/** The way from one bundle to another. */
function besides(outfile) {
  return (file) => {
    const from = relative(dirname(outfile), join(DIST, file)).replaceAll(sep, '/')
    return `require(${JSON.stringify(from.startsWith('.') ? from : `./${from}`)})`
  }
}

/**
 * The way from the command line to a bundle of the main package. It is no entry point of that package, so it is
 * found by its folder. In this repository the main package is the root itself.
 */
const INSTALLED = `'use strict'
const bundleOfTollgate = (file) => {
  const { dirname, join } = require('node:path')
  return require(join(dirname(require.resolve('tollgate/package.json')), 'dist', file))
}`
const ofTheMainPackage = (file) => `bundleOfTollgate(${JSON.stringify(file)})`

/** Replaces shared modules by their counterparts in the bundles that have them. */
function fromBundles(bundles, requireFrom) {
  return {
    name: 'from-bundles',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir, kind, namespace }) => {
        const module = namespace === 'file' ? moduleOf(resolve(resolveDir, path)) : undefined
        const bundle = bundles.find(({ modules }) => modules.has(module))
        return bundle && kind !== 'entry-point' ? { path: module, namespace: 'shared', pluginData: bundle } : undefined
      })
      onResolve({ filter: /./, namespace: 'shared' }, ({ path }) => ({ path, external: true }))
      // Constants: reading the exports of a CommonJS module took a fifth of the time of an embedded call.
      onLoad({ filter: /./, namespace: 'shared' }, ({ path, pluginData: { file } }) => {
        const names = exportsOf.get(path).join(', ')
        return { contents: `const { ${names} } = ${requireFrom(file)}[${JSON.stringify(path)}]\nexport { ${names} }` }
      })
    },
  }
}

/** The names that modules export. */
async function exportsOfEach(modules) {
  const { metafile } = await build({
    entryPoints: modules.map((module) => join(SOURCES, `${module}.ts`)),
    format: 'esm',
    outdir: DIST,
    write: false,
    metafile: true,
    absWorkingDir: ROOT,
    logLevel: 'error',
  })
  const outputs = Object.values(metafile.outputs).filter(({ entryPoint }) => entryPoint !== undefined)
  return new Map(outputs.map(({ entryPoint, exports }) => [moduleOf(join(ROOT, entryPoint)), exports]))
}

/** The modules of each entry point, and the modules that each module imports. */
async function analyse() {
  const files = [...entries, ENGINE, CLI]
  const { metafile } = await build({
    ...forNode,
    entryPoints: Object.fromEntries(files.map((entry) => [entry, join(SOURCES, `${entry}.ts`)])),
    outdir: DIST,
    write: false,
    absWorkingDir: ROOT,
    plugins: [outside(join(DIST, 'any.js'))],
  })
  const moduleIn = (input) => moduleOf(join(ROOT, input))
  const reached = new Map()
  for (const [output, { inputs }] of Object.entries(metafile.outputs)) {
    for (const module of Object.keys(inputs).map(moduleIn).filter(Boolean)) {
      reached.set(module, [...(reached.get(module) ?? []), output])
    }
  }
  const imports = new Map(
    Object.entries(metafile.inputs).map(([input, { imports }]) => [
      moduleIn(input) ?? input,
      imports.filter(({ external }) => !external).map(({ path }) => moduleIn(path) ?? path),
    ]),
  )
  return { reached, imports }
}

/** Whether a module or one that it imports loads the addon. */
function needsAddon(module, imports, seen = new Set()) {
  if (module === NATIVE || seen.has(module)) {
    return module === NATIVE
  }
  seen.add(module)
  return (imports.get(module) ?? []).some((next) => needsAddon(next, imports, seen))
}

/** Modules, and all that they import. */
function withImports(modules, imports) {
  const found = new Set(modules)
  for (const module of found) {
    for (const next of imports.get(module) ?? []) found.add(next)
  }
  return found
}

/** Bundles shared modules. Each is an export by its path. */
async function bundleShared(file, modules, others) {
  const names = [...modules].sort()
  const lines = names.map((name, index) => `import * as m${index} from ${JSON.stringify(`./${name}.js`)}`)
  const exported = names.map((name, index) => `m${index} as ${JSON.stringify(name)}`)
  const outfile = join(DIST, file)
  await build({
    ...forNode,
    stdin: { contents: `${lines.join('\n')}\nexport { ${exported.join(', ')} }`, resolveDir: SOURCES, loader: 'ts' },
    outfile,
    plugins: [fromBundles(others, besides(outfile)), outside(outfile)],
  })
}

const { reached, imports } = await analyse()
// An index only names exports. In the bundle of its entry point Node.js finds these names.
// The command line, which is in another package, has its own copy of an entry point's module.
const isShared = (module) => reached.get(module).length > 1 && !/(^|\/)index$/.test(module) && !entries.includes(module)
const shared = [...reached.keys()].filter(isShared)
const withAddon = new Set(shared.filter((module) => needsAddon(module, imports)))
const forWasm = new Set(shared.filter((module) => reached.get(module).every((output) => output.includes('/wasm/'))))
/** The outputs that have an engine. */
const withEngine = new Set([...withAddon, ...forWasm].flatMap((module) => reached.get(module)))
const OUTGOING = ['client/index', 'mcp/index']
const isOutgoing = (output) => OUTGOING.some((entry) => output.endsWith(`dist/${entry}.js`))
const forOutgoing = new Set(shared.filter((module) => reached.get(module).every(isOutgoing)))
const others = shared.filter((module) => ![withAddon, forWasm, forOutgoing].some((set) => set.has(module)))
const isForLimiter = (module) => reached.get(module).every((output) => withEngine.has(output))
// A module is bundled whole, also with imports that no entry point without an engine uses.
const forAll = withImports(
  others.filter((module) => !isForLimiter(module)),
  imports,
)
const bundles = [
  { file: 'shared.js', modules: new Set(others.filter((module) => forAll.has(module))) },
  { file: 'limiter.js', modules: new Set(others.filter((module) => !forAll.has(module))) },
  { file: 'outgoing.js', modules: forOutgoing },
  { file: 'core.js', modules: withAddon },
  { file: 'wasm/engine.js', modules: forWasm },
]

const exportsOf = await exportsOfEach(shared)

for (const [index, { file, modules }] of bundles.entries()) {
  await bundleShared(file, modules, bundles.slice(0, index))
}
for (const entry of entries) {
  const outfile = join(DIST, `${entry}.js`)
  await build({
    ...forNode,
    entryPoints: [join(SOURCES, `${entry}.ts`)],
    outfile,
    plugins: [fromBundles(bundles, besides(outfile)), outside(outfile)],
  })
}
// The modules for `import` name the exports of those for `require`.
for (const entry of entries) {
  const toRequired = { path: `./${basename(entry)}.js`, external: true }
  await build({
    entryPoints: [join(SOURCES, `${entry}.mts`)],
    bundle: true,
    format: 'esm',
    outfile: join(DIST, `${entry}.mjs`),
    plugins: [{ name: 'required', setup: ({ onResolve }) => onResolve({ filter: /\.js$/ }, () => toRequired) }],
    logLevel: 'warning',
  })
}

const cli = join(DIST, `${CLI}.js`)
const program = await build({
  ...forNode,
  minify: true,
  keepNames: true,
  entryPoints: [join(SOURCES, `${CLI}.ts`)],
  outfile: cli,
  banner: { js: INSTALLED },
  plugins: [fromBundles(bundles, ofTheMainPackage), outside(cli)],
})
chmodSync(cli, 0o755)

// The parts that an HTML report contains.
const page = await build({
  ...common,
  minify: true,
  entryPoints: {
    report: join(SOURCES, 'cli', 'simulate', 'report', 'plots.ts'),
    'report-style': join(SOURCES, 'cli', 'simulate', 'report', 'report.css'),
  },
  outdir: dirname(cli),
  platform: 'browser',
  target: 'es2022',
  format: 'iife',
})
renameSync(join(dirname(cli), 'report-style.css'), join(dirname(cli), 'report.css'))

const files = [program, page].flatMap(({ metafile }) => Object.keys(metafile.inputs))
writeFileSync(join(dirname(cli), 'THIRD-PARTY-LICENSES.txt'), bundledLicenses(ROOT, 'The command line', files))

pruneDeclarations(
  DIST,
  entries.flatMap((entry) => [join(DIST, `${entry}.d.ts`), join(DIST, `${entry}.d.mts`)]),
)
