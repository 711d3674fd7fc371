/** Compiles modules of ECMAScript for Jest, as `transform.cjs` does. Jest cannot run the `import()` of these packages. */
const { pathToFileURL } = require('node:url')
const { transformSync } = require('esbuild')

module.exports = {
  process: (source, path) =>
    transformSync(source, {
      sourcefile: path,
      loader: 'ts',
      format: 'cjs',
      target: 'node20',
      define: { 'import.meta.url': JSON.stringify(pathToFileURL(path).href) },
      supported: { 'dynamic-import': false },
      sourcemap: 'external',
    }),
}
