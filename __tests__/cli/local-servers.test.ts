/** No request ends the servers of `playground` and `demo`, and pages of other origins have no effect on them. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startServer } from '../../ts/cli/demo/server.js'

const SERVE = join(__dirname, '..', '..', 'examples', 'playground', 'serve.mjs')

/** Sends bytes, and returns the status line of the answer; empty if the server closed without one. */
async function raw(port: number, host: string, bytes: string | Buffer, isAborted = false): Promise<string> {
  const socket = connect(port, host)
  let text = ''
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part
  })
  socket.on('error', () => {})
  await once(socket, 'connect')
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write(bytes)
  if (isAborted) {
    socket.resetAndDestroy()
  } else {
    await closed
  }
  return text.split('\r\n')[0] as string
}

function request(line: string, host: string, ...headers: string[]): string {
  return [`${line} HTTP/1.1`, `Host: ${host}`, 'Connection: close', ...headers, '', ''].join('\r\n')
}

describe('the playground', () => {
  let folder: string
  let child: ChildProcess
  let port: number
  const local = () => `localhost:${port}`
  const get = (path: string, ...headers: string[]) =>
    raw(port, 'localhost', request(`GET ${path}`, local(), ...headers))

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tollgate-playground-'))
    writeFileSync(join(folder, 'index.html'), '<!doctype html>')
    writeFileSync(join(folder, 'app.js'), '0')
    mkdirSync(join(folder, 'folder.js'))
    child = spawn(process.execPath, [SERVE, '0', folder], { stdio: ['ignore', 'pipe', 'inherit'] })
    const [text] = await once(child.stdout as NodeJS.ReadableStream, 'data')
    port = Number(new URL(`${text}`.trim()).port)
  })

  afterAll(async () => {
    const exited = once(child, 'exit')
    child.kill()
    await exited
    rmSync(folder, { recursive: true })
  })

  afterEach(async () => {
    expect(await get('/')).toBe('HTTP/1.1 200 OK')
    expect(child.exitCode).toBeNull()
  })

  test.each([
    ['/', 200],
    ['/?a=//', 200],
    ['/app.js', 200],
    ['/app.js#part', 200],
    ['//', 400],
    ['//evil.example/', 400],
    ['///', 400],
    ['http://[', 400],
    ['http://localhost/', 400],
    ['*', 400],
    ['/%', 400],
    ['/%E0%A4%A', 400],
    ['/%00.js', 400],
    ['/..', 404],
    ['/../package.json', 404],
    ['/%2e%2e/package.json', 404],
    ['/..%5capp.js', 404],
    ['/folder.js', 404],
    ['/absent.js', 404],
    ['/.js', 404],
    ['/constructor', 404],
    [`/${'x'.repeat(4_000)}.js`, 404],
  ])('GET %s is answered with %d', async (path, status) => {
    expect(await get(path)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  })

  test.each([
    ['HEAD', 200],
    ['POST', 405],
    ['PUT', 405],
    ['DELETE', 405],
    ['OPTIONS', 405],
    ['TRACE', 405],
  ])('%s is answered with %d', async (method, status) => {
    expect(await raw(port, 'localhost', request(`${method} /`, local()))).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  })

  test.each(['evil.example', `evil.example:80`, 'localhost.evil.example', 'localhost@evil.example', ''])(
    'the host %j of a page elsewhere is refused',
    async (host) => {
      expect(await raw(port, 'localhost', request('GET /', host))).toBe('HTTP/1.1 403 Forbidden')
    },
  )

  test('hosts of this machine are served, with any port: it may be forwarded', async () => {
    for (const host of ['localhost', 'LOCALHOST:1', '127.0.0.1:8080', '[::1]:8080']) {
      expect(await raw(port, 'localhost', request('GET /', host))).toBe('HTTP/1.1 200 OK')
    }
  })

  test('other origins may not read, frame or embed an answer', async () => {
    const answer = await fetch(`http://${local()}/`, { headers: { origin: 'https://evil.example' } })
    const names = [...answer.headers.keys()]
    expect(names.filter((name) => name.startsWith('access-control-'))).toEqual([])
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-security-policy': "frame-ancestors 'none'",
      'cross-origin-resource-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
    })
  })

  test('aborted, broken and huge requests end nothing', async () => {
    await get(`/${'x'.repeat(100_000)}`)
    await get('/', `x: ${'x'.repeat(100_000)}`)
    for (const bytes of ['', 'GET', 'GET / HTTP/1.1\r\nHost: localhost', request('GET /app.js', local())]) {
      for (let time = 0; time < 10; time++) {
        await raw(port, 'localhost', bytes, true)
      }
    }
    await raw(port, 'localhost', Buffer.from([0x16, 0x03, 0x01, 0x00, 0xff, 0x0d, 0x0a, 0x0d, 0x0a]))
    await raw(port, 'localhost', 'GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await raw(port, 'localhost', request('CONNECT evil.example:80', 'evil.example'))
    await raw(port, 'localhost', request('GET /', local(), 'Upgrade: websocket', 'Connection: Upgrade'))
    await raw(port, 'localhost', request('POST /', local(), 'Expect: 100-continue', 'Content-Length: 5'))
  })
})

test('no request ends the server of the demo', async () => {
  const server = await startServer()
  const port = Number(new URL(server.url).port)
  const status = async (line: string, ...headers: string[]) => {
    return Number((await raw(port, '127.0.0.1', request(line, `127.0.0.1:${port}`, ...headers))).split(' ')[1])
  }
  for (const path of ['/', '//', 'http://[', '/%', '*', '/../..']) {
    expect(await status(`GET ${path}`, 'x-client: one')).toBe(200)
  }
  for (const method of ['POST', 'OPTIONS', 'HEAD']) {
    expect(await status(`${method} /`)).toBe(405)
  }
  for (const client of ['', 'x'.repeat(5_000), '\u00ff']) {
    expect(await status('GET /', `x-client: ${client}`)).toBeLessThan(600)
  }
  expect(await raw(port, '127.0.0.1', request('GET /', 'evil.example'))).toBe('HTTP/1.1 403 Forbidden')
  await raw(port, '127.0.0.1', request('GET /', 'localhost'), true)
  expect(await status('GET /', 'x-client: last')).toBe(200)
  await server.close()
})
