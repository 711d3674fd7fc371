// A process that starts a server, tells of it and forgets it; it waits for its own end.
const Module = require('node:module')
const { readFileSync } = require('node:fs')
const ts = require('typescript')

// The test bed is TypeScript, and this is no test that Jest compiles.
const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 }
Module._extensions['.ts'] = (module, file) =>
  module._compile(ts.transpileModule(readFileSync(file, 'utf8'), { compilerOptions }).outputText, file)
const resolve = Module._resolveFilename
Module._resolveFilename = (name, ...rest) => {
  const isOurs = name.startsWith('.') && rest[0]?.filename?.endsWith('.ts')
  return resolve(isOurs ? name.replace(/\.js$/, '.ts') : name, ...rest)
}

const { RedisServer } = require('./redis-server.ts')

RedisServer.start().then(({ pid, socketPath }) => {
  console.log(JSON.stringify({ pid, socketPath }))
  setInterval(() => {}, 60_000)
})
