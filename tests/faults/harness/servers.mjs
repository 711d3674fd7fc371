/** The servers and proxies of the tests, `__tests__/servers/`, compiled for these programs. */
import { mkdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'

const TESTS = fileURLToPath(new URL('../../../__tests__/', import.meta.url))
// Below the folder whose packages the servers import.
const OUT = join(TESTS, 'build', 'faults')

const NAMES = ['redis-server', 'tcp-proxy', 'fake-time', 'run-folder', 'ports', 'until']

mkdirSync(OUT, { recursive: true })
const contents = NAMES.map((name) => `export * from './${name}.js'`).join('\n')
buildSync({
  stdin: { contents, resolveDir: join(TESTS, 'servers'), loader: 'ts' },
  outfile: join(OUT, 'servers.cjs'),
  bundle: true,
  packages: 'external',
  platform: 'node',
  format: 'cjs',
  target: 'node20',
})

/** @type {typeof import('../../../__tests__/servers/redis-server.js') & typeof import('../../../__tests__/servers/tcp-proxy.js') & typeof import('../../../__tests__/servers/fake-time.js') & typeof import('../../../__tests__/servers/run-folder.js') & typeof import('../../../__tests__/servers/ports.js') & typeof import('../../../__tests__/servers/until.js')} */
export const { REDIS_SERVER, RedisServer, TcpProxy, FakeTime, newFolder, removeFolder, freePort, until } =
  createRequire(import.meta.url)(join(OUT, 'servers.cjs'))
