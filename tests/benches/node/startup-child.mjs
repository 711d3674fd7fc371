// A fresh process that loads packages by `import`, and prints the time, the files and their bytes.
import { statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const names = process.argv.slice(2)
const start = performance.now()
for (const name of names) {
  await import(name)
}
const loadMs = performance.now() - start

// The modules of the packages name the exports of CommonJS modules.
const named = names.map((name) => fileURLToPath(import.meta.resolve(name)))
const files = [...new Set([...named, ...Object.keys(createRequire(import.meta.url).cache)])]
const bytes = files.reduce((sum, file) => sum + statSync(file).size, 0)
console.log(JSON.stringify({ loadMs, files: files.length, bytes }))
