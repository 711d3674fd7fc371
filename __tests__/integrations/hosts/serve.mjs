// Serves a Worker by workerd, and prints its URL. Miniflare does not start in the contexts of Jest.
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { build } from 'esbuild'
import { Miniflare } from 'miniflare'

const ROOT = join(import.meta.dirname, '..', '..', '..')

const { contents, bindings, compatibilityDate, compatibilityFlags } = JSON.parse(process.argv[2])

/** Beside the program, as wrangler leaves them. */
const compiled = new Map()

const modulesApart = {
  name: 'modules-apart',
  setup({ onResolve, resolve }) {
    // It is no package of this folder.
    onResolve({ filter: /^tollgate\// }, ({ path, kind, resolveDir }) =>
      resolveDir === ROOT ? undefined : resolve(path, { kind, resolveDir: ROOT }),
    )
    onResolve({ filter: /\.wasm$/ }, ({ path, resolveDir }) => {
      compiled.set(basename(path), readFileSync(join(resolveDir, path)))
      return { path: `./${basename(path)}`, external: true }
    })
  },
}

const { outputFiles } = await build({
  stdin: { contents, resolveDir: import.meta.dirname },
  bundle: true,
  write: false,
  format: 'esm',
  target: 'es2022',
  conditions: ['workerd', 'worker', 'browser'],
  plugins: [modulesApart],
})
const worker = new Miniflare({
  modules: [
    { type: 'ESModule', path: 'worker.mjs', contents: outputFiles[0].text },
    ...[...compiled].map(([path, contents]) => ({ type: 'CompiledWasm', path, contents })),
  ],
  bindings,
  compatibilityDate,
  compatibilityFlags,
})
process.once('SIGTERM', () => worker.dispose())
console.log((await worker.ready).origin)
