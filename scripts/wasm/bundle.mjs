// Makes of `ts/wasm/` what needs no module beside it, for who has no CommonJS: dist/wasm/web.mjs for browsers and Deno, and
// dist/wasm/workerd.mjs for Cloudflare's Workers, which imports the engine as a module.
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..')

/** Where the engine comes from on workerd. */
const asModule = {
  name: 'engine-as-module',
  setup(build) {
    build.onResolve({ filter: /^\.\/module\.js$/ }, ({ resolveDir }) => ({
      path: join(resolveDir, 'module.workerd.mjs'),
    }))
    // As seen from what is made.
    build.onResolve({ filter: /\.wasm$/ }, ({ path }) => ({ path, external: true }))
  },
}

for (const [name, plugins] of [
  ['web', []],
  ['workerd', [asModule]],
]) {
  await build({
    entryPoints: [join(ROOT, 'ts', 'wasm', 'index.ts')],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    // Modules of Node cannot be resolved: to need one fails here.
    platform: 'browser',
    legalComments: 'none',
    minifySyntax: true,
    outfile: join(ROOT, 'dist', 'wasm', `${name}.mjs`),
    plugins,
  })
}
