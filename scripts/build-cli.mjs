/**
 * Bundles the command line with its libraries into dist/cli/, so the package has no runtime
 * dependencies. Modules that it shares with the rest of the package are loaded from there.
 */
import { chmodSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { bundledLicenses } from './third-party.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const SOURCES = join(ROOT, 'ts')
const FOLDER = join(ROOT, 'dist', 'cli')

/** Modules outside the command line are compiled to dist/ already. */
const shared = {
  name: 'shared',
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ path, resolveDir, importer }) => {
      const target = relative(SOURCES, resolve(resolveDir, path))
      const isOurs = importer.startsWith(SOURCES + sep) && !target.startsWith('..')
      return isOurs && !target.startsWith(`cli${sep}`)
        ? { path: `../${target.replaceAll(sep, '/')}`, external: true }
        : undefined
    })
    onResolve({ filter: /package\.json$/ }, () => ({ path: '../../package.json', external: true }))
  },
}

const common = { bundle: true, minify: true, legalComments: 'none', metafile: true, logLevel: 'warning' }

const program = await build({
  ...common,
  entryPoints: [join(SOURCES, 'cli', 'main.ts')],
  outfile: join(FOLDER, 'main.js'),
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  keepNames: true,
  plugins: [shared],
})
chmodSync(join(FOLDER, 'main.js'), 0o755)

// The parts that an HTML report contains.
const page = await build({
  ...common,
  entryPoints: {
    report: join(SOURCES, 'cli', 'simulate', 'report', 'plots.ts'),
    'report-style': join(SOURCES, 'cli', 'simulate', 'report', 'report.css'),
  },
  outdir: FOLDER,
  platform: 'browser',
  target: 'es2022',
  format: 'iife',
})
renameSync(join(FOLDER, 'report-style.css'), join(FOLDER, 'report.css'))

const files = [program, page].flatMap(({ metafile }) => Object.keys(metafile.inputs))
writeFileSync(join(FOLDER, 'THIRD-PARTY-LICENSES.txt'), bundledLicenses(ROOT, 'The command line', files))
