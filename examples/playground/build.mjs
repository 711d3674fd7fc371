// Builds the playground: `npm run playground:build`. The output, examples/playground/dist/ or the given
// folder, is a static site: any web host can serve it, at any path. `--docs ADDRESS` sets where the
// links to the documentation lead: an address with `*` in the place of a page's name.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { build } from 'esbuild'
import { bundledLicenses } from '../../scripts/third-party.mjs'

const HERE = dirname(fileURLToPath(import.meta.url))
const ROOT = dirname(dirname(HERE))

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { docs: { type: 'string', default: '' } },
})
const outdir = positionals[0] ?? join(HERE, 'dist')
rmSync(outdir, { recursive: true, force: true })
mkdirSync(outdir, { recursive: true })
const { metafile } = await build({
  entryPoints: {
    page: join(HERE, 'view', 'page.tsx'),
    worker: join(HERE, 'worker.ts'),
    style: join(HERE, 'view', 'style.css'),
  },
  outdir,
  bundle: true,
  format: 'esm',
  target: 'es2023',
  platform: 'browser',
  minify: true,
  define: { DOCS: JSON.stringify(values.docs) },
  legalComments: 'none',
  metafile: true,
  absWorkingDir: ROOT,
  tsconfig: join(HERE, 'tsconfig.json'),
  logLevel: 'warning',
})
for (const file of ['index.html', 'icon.svg']) {
  cpSync(join(HERE, 'view', file), join(outdir, file))
}
const own = `tollgate\n\n${readFileSync(join(ROOT, 'LICENSE'), 'utf8').trim()}\n`
const bundled = bundledLicenses(ROOT, 'The page', Object.keys(metafile.inputs))
writeFileSync(join(outdir, 'licences.txt'), `${bundled}${'-'.repeat(80)}\n${own}`)
console.log(outdir)
