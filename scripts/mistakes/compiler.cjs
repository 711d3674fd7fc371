/**
 * The errors of the TypeScript compiler for programs that use the built package: `dist/`.
 */
const { createRequire } = require('node:module')
const { dirname, join } = require('node:path')

const ROOT = dirname(dirname(__dirname))

/** @type {typeof import('./compiler.cjs').compilerAnswers} */
function compilerAnswers(programs, typescript = createRequire(join(ROOT, '__tests__', 'index.js'))('typescript')) {
  const ts = typescript
  const options = {
    module: ts.ModuleKind.Node16,
    moduleResolution: ts.ModuleResolutionKind.Node16,
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2022.d.ts'],
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: true,
    types: ['node'],
    typeRoots: [join(ROOT, '__tests__', 'node_modules', '@types')],
  }
  // In this folder programs find the package by its own name.
  const texts = new Map(programs.map((text, index) => [join(ROOT, `program-${index}.mts`), text]))
  const host = ts.createCompilerHost(options)
  const { getSourceFile, fileExists, readFile } = host
  host.getSourceFile = (path, language, ...rest) =>
    texts.has(path)
      ? ts.createSourceFile(path, texts.get(path), language, true)
      : getSourceFile.call(host, path, language, ...rest)
  host.fileExists = (path) => texts.has(path) || fileExists.call(host, path)
  host.readFile = (path) => texts.get(path) ?? readFile.call(host, path)
  const program = ts.createProgram([...texts.keys()], options, host)
  return [...texts.keys()].map((path) => {
    const source = program.getSourceFile(path)
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
    return found.map(({ code, start, messageText }) => {
      const text = withoutPaths(ts.flattenDiagnosticMessageText(messageText, '\n'))
      return { code, line: source.getLineAndCharacterOfPosition(start).line, text }
    })
  })
}

/** A message that is the same on each machine. */
function withoutPaths(text) {
  return text.replaceAll(/import\("[^"]*"\)\./g, '').replaceAll(/"[^"]*\/dist\/index"/g, '"tollgate"')
}

module.exports = { compilerAnswers }
