// A fresh process that loads packages by `require`, and prints the time, the files and their bytes.
const { statSync } = require('node:fs')

const names = process.argv.slice(2)
const start = performance.now()
for (const name of names) {
  require(name)
}
const loadMs = performance.now() - start

const files = Object.keys(require.cache).filter((file) => file !== __filename)
const bytes = files.reduce((sum, file) => sum + statSync(file).size, 0)
console.log(JSON.stringify({ loadMs, files: files.length, bytes }))
