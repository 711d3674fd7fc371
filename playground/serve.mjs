// Serves the built playground, on localhost only: `npm run playground`, and `npx tollgate playground` in the
// package. As a program, its arguments are the port, of which 0 picks a free one, and the folder of the build.
import { createReadStream, existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, extname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const HERE = dirname(fileURLToPath(import.meta.url))

const TYPES = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
}

/**
 * Serves a folder without subfolders. Resolves to its address; rejects if the port is in use.
 *
 * @param {string} folder
 * @param {number} port 0 picks a free one.
 */
export async function serve(folder, port) {
  const server = createServer(({ method, url }, response) => {
    const file = fileOf(folder, url)
    if (file === undefined || !existsSync(file)) {
      response.writeHead(404, { 'content-type': TYPES['.txt'] }).end('Not found\n')
      return
    }
    response.writeHead(200, { 'content-type': TYPES[extname(file)], 'cache-control': 'no-cache' })
    method === 'HEAD' ? response.end() : createReadStream(file).pipe(response)
  })
  await new Promise((done, fail) => {
    server.once('error', fail)
    server.listen(port, 'localhost', done)
  })
  return `http://localhost:${server.address().port}/`
}

/** The file of a request. */
function fileOf(folder, url = '/') {
  const { pathname } = new URL(url, 'http://localhost')
  const name = pathname === '/' ? 'index.html' : pathname.slice(1)
  return /^[\w.-]+$/.test(name) && extname(name) in TYPES ? join(folder, name) : undefined
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await serve(process.argv[3] ?? join(HERE, 'dist'), Number(process.argv[2] ?? 4321)))
  } catch (error) {
    console.error(`${error.message}; another port: npm run playground -- 4322`)
    process.exitCode = 1
  }
}
