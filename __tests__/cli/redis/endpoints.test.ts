/**
 * The Redis commands of the command line connect to every kind of endpoint that a limiter can use,
 * and never print a password.
 */

import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { HotKey, HotKeySample } from '../../../ts/cli/redis/hot-keys.js'
import type { KeyInspection } from '../../../ts/cli/redis/inspect.js'
import { gcra, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import { CertificateAuthority } from '../../servers/certificates.js'
import { RedisCluster } from '../../servers/cluster.js'
import { RedisServer } from '../../servers/redis-server.js'
import { SentinelGroup } from '../../servers/sentinel.js'
import { type CommandResult, type RunOptions, tollgate } from '../command.js'
import { commandsOf, expectQuiet, expectReading, json } from './server.js'

const POLICY = 'gcra limit=20 period=20d'
/** In URLs it must be percent-encoded. */
const SECRET = 'pa$$/wörd@1'
const ENCODED = encodeURIComponent(SECRET)

const folder = mkdtempSync(join(tmpdir(), 'tollgate-places-'))

afterAll(() => rmSync(folder, { recursive: true }))

async function taken(options: RedisStoreOptions, keys: readonly string[]): Promise<void> {
  await using store = new RedisStore(options)
  await using limiter = new RateLimiter(gcra({ limit: 20, period: '20d' }), { store, prefix: 'api' })
  await limiter.takeMany(keys, 3)
}

function expectNoSecret(result: CommandResult, ...secrets: string[]): void {
  for (const secret of [SECRET, ENCODED, ...secrets]) {
    expect(result.stdout + result.stderr).not.toContain(secret)
  }
}

/** Runs a command, and checks its output for passwords. */
async function runChecked(words: readonly string[], options?: RunOptions): Promise<CommandResult> {
  const result = await tollgate(words, options)
  expectNoSecret(result)
  return result
}

describe('a cluster', () => {
  const keys = Array.from({ length: 60 }, (_, at) => `user:${at}`)
  let cluster: RedisCluster
  let url: string

  beforeAll(async () => {
    cluster = await RedisCluster.start()
    const [first] = cluster.nodes as [RedisServer]
    const nodes = [`127.0.0.1:${first.port}`]
    url = first.url
    await taken({ cluster: { nodes } }, keys)
    await taken({ cluster: { nodes, tags: 5 } }, ['tagged'])
  })

  afterAll(() => cluster.stop())

  test('can be reached through any of its nodes, and every key is found on its node', async () => {
    for (const key of keys.slice(0, 6)) {
      const inspection = await json<KeyInspection>([
        'inspect',
        url,
        '--prefix',
        'api',
        '--key',
        key,
        '--policy',
        POLICY,
      ])
      expect(inspection).toMatchObject({ code: 0, states: [{ key, used: 3 }], decision: { remaining: 17 } })
      expect(inspection.server).toMatch(/^cluster of 127\.0\.0\.1:\d+ and 2 more$/)
    }
  })

  test('keys with shared tags are found by the number of tags or by a full scan', async () => {
    const words = ['inspect', url, '--prefix', 'api', '--key', 'tagged']
    for (const more of [['--cluster-tags', '5', '--policy', POLICY], []]) {
      expect(await json<KeyInspection>([...words, ...more])).toMatchObject({ states: [{ key: 'tagged', used: 3 }] })
    }
  })

  test('top merges the keys of all nodes, and writes nothing', async () => {
    const run = cluster.nodes.reduceRight<() => Promise<void>>(
      (inner, node) => async () => {
        const commands = await commandsOf(node, inner)
        expect(commands.names).toContain('scan')
        expectReading(commands)
      },
      async () => {
        const top = ['top', url, '--prefix', 'api', '--most', '100']
        const found = await json<{ keys: readonly HotKey[]; sample: HotKeySample }>(top)
        expect(found.keys.map(({ key }) => key).sort()).toEqual([...keys, 'tagged'].sort())
        expect(found.sample).toMatchObject({ read: 61, isComplete: true, scannedShare: 1 })
      },
    )
    await run()
  })

  test('keys are changed on their nodes', async () => {
    for (const key of keys.slice(0, 4)) {
      const words = [url, '--prefix', 'api', '--key', key, '--policy', POLICY]
      const { stdout } = expectQuiet(await tollgate(['block', ...words, '--for', '1h']))
      expect(stdout).toMatch(/^ {2}blocked for (1 h|59 min)/m)
      expect(await json<KeyInspection>(['reset', ...words])).toMatchObject({ states: [], decision: { remaining: 20 } })
    }
  })
})

describe('a server with TLS and a password', () => {
  let server: RedisServer
  let env: { readonly REDIS_URL: string }
  let ca: string

  beforeAll(async () => {
    const authority = await CertificateAuthority.make()
    const tls = { server: await authority.issue() }
    const config = [`requirepass ${SECRET}`]
    server = await RedisServer.start({ tls, config, credentials: { password: SECRET } })
    ca = join(folder, 'ca.pem')
    writeFileSync(ca, authority.certificate)
    await taken({ url: server.tlsUrl, password: SECRET, tls: { ca: authority.certificate } }, ['user:42'])
    env = { REDIS_URL: server.tlsUrl.replace('//', `//:${ENCODED}@`) }
  })

  afterAll(() => server.stop())

  const words = (command: string, ...more: string[]) => [command, '--prefix', 'api', '--ca', ca, ...more]
  const key = ['--key', 'user:42']

  test('can be reached with REDIS_URL, --url-file and REDIS_PASSWORD', async () => {
    const file = join(folder, 'url')
    writeFileSync(file, `${env.REDIS_URL}\n`)
    const inspect = words('inspect', ...key, '--policy', POLICY)
    for (const result of [
      await runChecked(inspect, { env }),
      await runChecked([...inspect, '--url-file', file]),
      await runChecked([...inspect, server.tlsUrl], { env: { REDIS_PASSWORD: SECRET } }),
      await runChecked([...inspect, server.tlsUrl], { env: { REDIS_PASSWORD: SECRET, REDIS_USERNAME: 'default' } }),
    ]) {
      expect(expectQuiet(result).code).toBe(0)
      expect(result.stdout).toMatch(/^ {2}used: 3 of 20 \(15 %\)$/m)
    }
  })

  test('every command works, and none prints the password', async () => {
    const numbers = ['--numbers', 'burst=7']
    for (const [command = '', ...more] of [
      ['inspect', ...key],
      ['top'],
      ['block', ...key, '--for', '1h', '--policy', POLICY],
      ['unblock', ...key, '--policy', POLICY],
      ['override', ...key, ...numbers, '--for', '1h', '--policy', POLICY],
      ['clear-override', ...key, '--policy', POLICY],
      ['reset', ...key, '--policy', POLICY, '--format', 'json'],
    ]) {
      const { code, stdout } = expectQuiet(await runChecked(words(command, ...more), { env }))
      expect({ command, code }).toEqual({ command, code: 0 })
      expect(stdout).toContain(`localhost:${server.port}`)
    }
  })

  test('a URL with a password on the command line causes a warning without the password', async () => {
    const { code, stderr } = await runChecked(words('inspect', '--key', 'nobody', env.REDIS_URL))
    expect(code).toBe(1)
    expect(stderr).toMatch(/^tollgate: note: this machine's list of processes shows the URL's password; /)
  })

  test('error messages leave the password out', async () => {
    const plain = server.tlsUrl.replace('rediss', 'redis')
    for (const [options, code, complaint] of [
      [{ REDIS_URL: server.tlsUrl.replace('//', `//:${ENCODED}x@`) }, 3, /authentication failed/],
      [{ REDIS_URL: server.tlsUrl }, 3, /auth|login/i],
      [{ REDIS_URL: `rediss://:${ENCODED}@127.0.0.1:1` }, 3, /127\.0\.0\.1:1\b/],
      [{ REDIS_URL: `redis://:${ENCODED}@no host` }, 2, /REDIS_URL must be a Redis URL/],
      [{ REDIS_URL: `http://:${ENCODED}@localhost` }, 2, /REDIS_URL must be a Redis URL/],
      [{ REDIS_URL: `redis://:${ENCODED}@localhost/?x=${ENCODED}` }, 2, /REDIS_URL must have no query/],
      [{ REDIS_URL: plain, REDIS_PASSWORD: SECRET }, 2, /are for TLS/],
      [{}, 2, /the URL of Redis is missing/],
    ] as const) {
      const result = await runChecked(words('inspect', ...key, '--timeout', '2s'), { env: options })
      expect({ code: result.code, stdout: result.stdout }).toEqual({ code, stdout: '' })
      expect(result.stderr).toMatch(/^tollgate: .*\n$/)
      expect(result.stderr).toMatch(complaint)
    }
    const stranger = await runChecked(['inspect', '--prefix', 'api', ...key, '--timeout', '2s'], { env })
    expect(stranger).toMatchObject({ code: 3, stdout: '' })
    expect(stranger.stderr).toMatch(/certificate|UnknownIssuer/i)
    const missing = await runChecked(words('inspect', ...key, '--url-file', join(folder, 'none')))
    expect(missing).toMatchObject({ code: 3, stderr: expect.stringMatching(/^tollgate: --url-file: .*ENOENT/) })
  })
})

test('a user with read permission alone can inspect, without a policy', async () => {
  const reading = ['get', 'lrange', 'hgetall', 'zrange', 'zcard', 'zcount', 'scan', 'time', 'dbsize', 'hello', 'auth']
  const user = `user looker on >${SECRET} ~api:* ${reading.map((name) => `+${name}`).join(' ')}`
  await using server = await RedisServer.start({ config: [user] })
  await taken({ url: server.url }, ['user:42'])
  const env = { REDIS_URL: server.url, REDIS_USERNAME: 'looker', REDIS_PASSWORD: SECRET }
  const inspection = expectQuiet(await runChecked(['inspect', '--prefix', 'api', '--key', 'user:42'], { env }))
  expect(inspection).toMatchObject({ code: 0, stdout: expect.stringContaining('used: 3 of 20') })
  const top = expectQuiet(await runChecked(['top', '--prefix', 'api'], { env }))
  expect(top).toMatchObject({ code: 0, stdout: expect.stringContaining('user:42') })
  const reset = await runChecked(['reset', '--prefix', 'api', '--key', 'user:42', '--policy', POLICY], { env })
  expect(reset).toMatchObject({ code: 3, stdout: '', stderr: expect.stringMatching(/no permissions/i) })
  const other = await runChecked(['inspect', '--prefix', 'other', '--key', 'user:42'], { env })
  expect(other).toMatchObject({ code: 3, stdout: '', stderr: expect.stringMatching(/no permissions/i) })
})

test('inspect reaches the master through sentinels, and a server through its unix socket', async () => {
  await using group = await SentinelGroup.start({ password: SECRET, sentinelPassword: 'another' })
  const [sentinel] = group.sentinels as [RedisServer]
  const master = await group.master()
  await taken({ url: master.url, password: SECRET }, ['user:42'])
  const env = { REDIS_URL: sentinel.url, REDIS_PASSWORD: SECRET, REDIS_SENTINEL_PASSWORD: 'another' }
  const words = ['inspect', '--prefix', 'api', '--key', 'user:42', '--policy', POLICY]
  const { code, stdout } = expectQuiet(await runChecked([...words, '--sentinel', group.name], { env }))
  expect(code).toBe(0)
  expect(stdout).toContain(` at 127.0.0.1:${master.port}, `)
  expect(stdout).toContain('used: 3 of 20')
  const unknown = await runChecked([...words, '--sentinel', 'nobody', '--timeout', '2s'], { env })
  expect(unknown).toMatchObject({ code: 3, stdout: '' })
  expectNoSecret(unknown, 'another')
  const socket = { REDIS_URL: `redis+unix://${master.socketPath}`, REDIS_PASSWORD: SECRET }
  expect(expectQuiet(await runChecked(words, { env: socket })).stdout).toContain('used: 3 of 20')
})

test('a server that does not answer causes an error after --timeout', async () => {
  await using server = await RedisServer.start()
  server.freeze()
  const words = ['inspect', server.url, '--prefix', 'api', '--key', 'user:42', '--timeout', '300ms']
  const result = await runChecked(words)
  server.thaw()
  expect(result).toMatchObject({ code: 3, stdout: '' })
  expect(result.stderr).toMatch(/^tollgate: .*(in time|does not answer)/)
})

test('a proxy that ends connections with CLIENT, HELLO or INFO is no obstacle', async () => {
  await using server = await RedisServer.start()
  await taken({ url: server.url }, ['user:42'])
  const proxy = createServer((client) => {
    const backend = connect(server.port, '127.0.0.1')
    const end = () => {
      client.destroy()
      backend.destroy()
    }
    for (const socket of [client, backend]) {
      socket.on('error', end).on('close', end)
    }
    client.on('data', (bytes) => (/\r\n(CLIENT|HELLO|INFO)\r\n/i.test(`${bytes}`) ? end() : backend.write(bytes)))
    backend.pipe(client)
  })
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  try {
    const url = `redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const inspection = await runChecked(['inspect', url, '--prefix', 'api', '--key', 'user:42', '--policy', POLICY])
    expect(inspection).toMatchObject({ code: 0, stdout: expect.stringContaining('used: 3 of 20') })
    const top = await runChecked(['top', url, '--prefix', 'api'])
    expect(top).toMatchObject({ code: 0, stdout: expect.stringContaining('user:42') })
  } finally {
    proxy.close()
  }
})
