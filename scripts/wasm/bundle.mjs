// Bundles `ts/wasm/` into modules without other files, for platforms without CommonJS:
// dist/wasm/web.mjs for browsers and Deno, and dist/wasm/workerd.mjs for Cloudflare's Workers,
// which imports the engine as a module. The part for Redis is in web-redis.mjs, so that bundlers
// can leave it out.
import { existsSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..')

/** The modules that are replaced on the web, where timers belong to one request. */
const forTheWeb = {
  name: 'for-the-web',
  setup(build) {
    build.onResolve({ filter: /^\.\.?\/(.*\/)?scheduler\.js$/ }, ({ path, resolveDir }) => ({
      path: join(resolveDir, path.replace('.js', '.web.ts')),
    }))
  },
}

/** The source of the engine on workerd. */
const asModule = {
  name: 'engine-as-module',
  setup(build) {
    build.onResolve({ filter: /^\.\/module\.js$/ }, ({ resolveDir }) => ({
      path: join(resolveDir, 'module.workerd.mjs'),
    }))
    // Relative to the output.
    build.onResolve({ filter: /\.wasm$/ }, ({ path }) => ({ path: `../../wasm/${basename(path)}`, external: true }))
  },
}

/** Puts the module for Redis into a file of its own. */
const apart = {
  name: 'apart',
  setup(build) {
    build.onResolve({ filter: /^\.\/module\.js$/ }, ({ resolveDir }) =>
      basename(resolveDir) === 'redis' ? { path: './web-redis.mjs', external: true, sideEffects: false } : undefined,
    )
  },
}

const WASM = join(ROOT, 'ts', 'wasm')

if (!existsSync(join(ROOT, 'wasm', 'inlined.js'))) {
  console.log('WebAssembly is not built: dist/ is without it')
  process.exit()
}

for (const [name, entry, plugins] of [
  ['web', 'index.ts', [forTheWeb, apart]],
  ['web-redis', join('redis', 'module.ts'), []],
  ['workerd', 'index.ts', [forTheWeb, asModule]],
]) {
  await build({
    entryPoints: [join(WASM, entry)],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    // Modules of Node cannot be resolved: importing one fails here.
    platform: 'browser',
    legalComments: 'none',
    // Its modules have other timers: see ts/platform/timers.ts.
    define: { 'globalThis.process': 'undefined' },
    minifySyntax: true,
    outfile: join(ROOT, 'dist', 'wasm', `${name}.mjs`),
    plugins,
  })
}
