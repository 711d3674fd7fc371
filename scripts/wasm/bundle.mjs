// Bundles `ts/wasm/` into ECMAScript modules for platforms without Node's modules: browsers, Deno and
// Cloudflare's Workers. Each piece of code is in one file:
//
// - dist/wasm/web.mjs: the entry point of all of these platforms
// - embedded.mjs, redis.mjs: the compiled engine, and the one for Redis, from their texts in generated/wasm/; bundlers
//   leave the latter out of a program without `RedisStore`
// - compile.mjs: what these two share
// - engine.js, redis-engine.js and the texts in generated/wasm/: the same files as for Node.js
// - embedded.workerd.mjs, redis.workerd.mjs: the same for Workers, which import WebAssembly and compile nothing
//
// `imports` of package.json chooses between the last pairs, by the condition `workerd`.
import { existsSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const SOURCES = join(ROOT, 'ts', 'wasm')

/** The folders of the modules, and the names of what they compile. */
const NAMES = { engine: 'embedded', redis: 'redis' }

/** The modules that are replaced on the web, where timers belong to one request. */
const forTheWeb = {
  name: 'for-the-web',
  setup(build) {
    build.onResolve({ filter: /^\.\.?\/(.*\/)?scheduler\.js$/ }, ({ path, resolveDir }) => ({
      path: join(resolveDir, path.replace('.js', '.web.ts')),
    }))
  },
}

/** Leaves what is in another file of the package there. */
const apart = {
  name: 'apart',
  setup(build) {
    const external = (path) => ({ path, external: true, sideEffects: false })
    build.onResolve({ filter: /^\.\/module\.js$/ }, ({ resolveDir }) =>
      external(`#wasm/${NAMES[basename(resolveDir)]}`),
    )
    build.onResolve({ filter: /\/compile\.js$/ }, () => external('./compile.mjs'))
    // Relative to the output.
    build.onResolve({ filter: /\/wasm\/[\w-]+\.(js|wasm)$/ }, ({ path }) =>
      external(`../../generated/wasm/${basename(path)}`),
    )
  },
}

if (!existsSync(join(ROOT, 'generated', 'wasm', 'inlined.js'))) {
  console.log('WebAssembly is not built: dist/ is without it')
  process.exit()
}

for (const [name, source] of [
  ['web', 'index.ts'],
  ['compile', 'engine/compile.ts'],
  ...Object.entries(NAMES).flatMap(([folder, name]) => [
    [name, `${folder}/module.ts`],
    [`${name}.workerd`, `${folder}/module.workerd.mjs`],
  ]),
]) {
  await build({
    entryPoints: [join(SOURCES, source)],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    // Modules of Node cannot be resolved: importing one fails here.
    platform: 'browser',
    legalComments: 'none',
    // Its modules have other timers: see ts/platform/timers.ts.
    define: { 'globalThis.process': 'undefined' },
    minifySyntax: true,
    // Bundlers print it anew. Names stay, for stack traces.
    minifyWhitespace: true,
    outfile: join(ROOT, 'dist', 'wasm', `${name}.mjs`),
    plugins: [forTheWeb, apart],
  })
}
