// Serves the built playground, on localhost only: `npm run playground`, and `npx tollgate-cli playground` in the
// package. As a program, its arguments are the port, of which 0 picks a free one, and the folder of the build.
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { dirname, extname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const HERE = dirname(fileURLToPath(import.meta.url))

const TEXT = 'text/plain; charset=utf-8'

const TYPES = new Map([
  ['.css', 'text/css; charset=utf-8'],
  ['.html', 'text/html; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
  ['.txt', TEXT],
])

/** The hosts of a request from this machine. A page that gives its name this address sends another one. */
const LOCAL_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i

/** Other pages can neither read an answer nor show it in a frame. */
const HEADERS = {
  'cache-control': 'no-cache',
  'content-security-policy': "frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
}

/**
 * Serves a folder without subfolders. Resolves to its address; rejects if the port is in use.
 *
 * @param {string} folder
 * @param {number} port 0 picks a free one.
 */
export async function serve(folder, port) {
  const server = createServer(async (request, response) => {
    const { status, type, body } = await answerTo(request, folder)
    const length = Buffer.byteLength(body)
    response.writeHead(status, {
      ...HEADERS,
      'content-type': type,
      'content-length': length,
      ...(status === 405 ? { allow: 'GET, HEAD' } : {}),
    })
    response.end(request.method === 'HEAD' ? undefined : body)
  })
  await new Promise((done, fail) => {
    server.once('error', fail)
    server.listen(port, 'localhost', done)
  })
  // An error of the listening socket concerns one connection.
  server.on('error', () => {})
  return `http://localhost:${server.address().port}/`
}

/** The answer to a request. It never rejects. */
async function answerTo({ method, url = '', headers }, folder) {
  if (!LOCAL_HOST.test(headers.host ?? '')) {
    return refusal(403, 'Only for localhost')
  }
  if (method !== 'GET' && method !== 'HEAD') {
    return refusal(405, 'Method not allowed')
  }
  const [path = ''] = url.split(/[?#]/, 1)
  if (!/^\/(?!\/)/.test(path) || !isDecodable(path)) {
    return refusal(400, 'Bad request')
  }
  const name = path === '/' ? 'index.html' : path.slice(1)
  const type = TYPES.get(extname(name))
  if (type === undefined || !/^[\w.-]+$/.test(name)) {
    return refusal(404, 'Not found')
  }
  return readFile(join(folder, name)).then(
    (body) => ({ status: 200, type, body }),
    () => refusal(404, 'Not found'),
  )
}

function refusal(status, text) {
  return { status, type: TEXT, body: `${text}\n` }
}

/** Whether a path is percent-encoded UTF-8, without a NUL. */
function isDecodable(path) {
  try {
    return !decodeURIComponent(path).includes('\0')
  } catch {
    return false
  }
}

if (process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    console.log(await serve(process.argv[3] ?? join(HERE, 'dist'), Number(process.argv[2] ?? 4321)))
  } catch (error) {
    console.error(`${error.message}; another port: npm run playground -- 4322`)
    process.exitCode = 1
  }
}
