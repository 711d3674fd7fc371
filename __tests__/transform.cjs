/**
 * Compiles TypeScript for Jest. esbuild drops types unchecked, in a millisecond a file; `npm run
 * check:types` checks them.
 */
const { transformSync } = require('esbuild')

module.exports = {
  process(source, path) {
    return transformSync(source, {
      sourcefile: path,
      loader: 'ts',
      format: 'cjs',
      target: 'node20',
      sourcemap: 'external',
    })
  },
}
