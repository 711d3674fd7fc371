// Prints the exports of the middlewares, of `tollgate/ai-sdk`, `tollgate/bullmq`, `tollgate/estimate`,
// `tollgate/headers` and `tollgate/mcp` by `import` and by `require`, without any framework installed.
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const exported = {}

for (const name of ['ai-sdk', 'bullmq', 'estimate', 'express', 'fastify', 'fetch', 'headers', 'hono', 'koa', 'mcp']) {
  const imported = await import(`tollgate/${name}`)
  const required = require(`tollgate/${name}`)
  const names = Object.keys(imported).sort()
  exported[name] = { names, isSame: names.every((key) => imported[key] === required[key]) }
}

console.log(JSON.stringify(exported))
