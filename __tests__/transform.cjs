/** Makes of TypeScript what Jest runs. Types are checked by `tsc`, not here: esbuild drops them, in a millisecond a file. */
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
