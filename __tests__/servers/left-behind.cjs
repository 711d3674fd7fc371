// A process that starts a server, prints its data and abandons it, then idles until it is killed.
const Module = require('node:module')
const { readFileSync } = require('node:fs')
const ts = require('typescript')

// The helpers are TypeScript, and Jest does not compile this file.
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
