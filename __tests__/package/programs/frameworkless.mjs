// What a program gets by `import` and by `require` of the middlewares, where no framework is installed.
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const told = {}

for (const name of ['express', 'fastify', 'fetch', 'hono', 'koa']) {
  const imported = await import(`tollgate/${name}`)
  const required = require(`tollgate/${name}`)
  const names = Object.keys(imported).sort()
  told[name] = { names, isSame: names.every((key) => imported[key] === required[key]) }
}

console.log(JSON.stringify(told))
