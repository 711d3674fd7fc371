// Serves the built playground: `npm run playground`. The port is the first argument, or 4321; 0
// picks a free port.
import { createReadStream, existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const SITE = join(dirname(fileURLToPath(import.meta.url)), 'dist')

const TYPES = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
}

/** The file of a request. The site is one folder without subfolders. */
function fileOf(url = '/') {
  const { pathname } = new URL(url, 'http://localhost')
  const name = pathname === '/' ? 'index.html' : pathname.slice(1)
  return /^[\w.-]+$/.test(name) && extname(name) in TYPES ? join(SITE, name) : undefined
}

const server = createServer(({ method, url }, response) => {
  const file = fileOf(url)
  if (file === undefined || !existsSync(file)) {
    response.writeHead(404, { 'content-type': TYPES['.txt'] }).end('Not found\n')
    return
  }
  response.writeHead(200, { 'content-type': TYPES[extname(file)], 'cache-control': 'no-cache' })
  method === 'HEAD' ? response.end() : createReadStream(file).pipe(response)
})

// On localhost only.
server.listen(Number(process.argv[2] ?? 4321), 'localhost', () => {
  console.log(`http://localhost:${server.address().port}/`)
})
server.on('error', (error) => {
  console.error(`${error.message}; another port: npm run playground -- 4322`)
  process.exitCode = 1
})
