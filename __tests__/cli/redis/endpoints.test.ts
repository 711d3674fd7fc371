/** Commands that look into Redis find it wherever a limiter does, and tell nobody its passwords. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { HotKey, HotKeySample } from '../../../ts/cli/redis/hot-keys.js'
import type { KeyInspection } from '../../../ts/cli/redis/inspect.js'
import { gcra, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import { CertificateAuthority } from '../../servers/certificates.js'
import { RedisCluster } from '../../servers/cluster.js'
import { RedisServer } from '../../servers/redis-server.js'
import { SentinelGroup } from '../../servers/sentinel.js'
import { type Surroundings, type Told, tollgate } from '../command.js'
import { commandsOf, expectQuiet, expectReading, json } from './server.js'

const POLICY = 'gcra limit=20 period=20d'
/** Of URLs it must be percent-encoded. */
const SECRET = 'pa$$/wörd@1'
const ENCODED = encodeURIComponent(SECRET)

const folder = mkdtempSync(join(tmpdir(), 'tollgate-places-'))

afterAll(() => rmSync(folder, { recursive: true }))

async function taken(options: RedisStoreOptions, keys: readonly string[]): Promise<void> {
  await using store = new RedisStore(options)
  await using limiter = new RateLimiter(gcra({ limit: 20, period: '20d' }), { store, prefix: 'api' })
  await limiter.takeMany(keys, 3)
}

function expectSecret(told: Told, ...secrets: string[]): void {
  for (const secret of [SECRET, ENCODED, ...secrets]) {
    expect(told.stdout + told.stderr).not.toContain(secret)
  }
}

/** Runs a command, and looks whether anything that it says holds a password. */
async function told(words: readonly string[], surroundings?: Surroundings): Promise<Told> {
  const said = await tollgate(words, surroundings)
  expectSecret(said)
  return said
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

  test('is known by any of its nodes, and every key is found where it is', async () => {
    for (const key of keys.slice(0, 6)) {
      const look = await json<KeyInspection>(['inspect', url, '--prefix', 'api', '--key', key, '--policy', POLICY])
      expect(look).toMatchObject({ code: 0, states: [{ key, used: 3 }], decision: { remaining: 17 } })
      expect(look.server).toMatch(/^cluster of 127\.0\.0\.1:\d+ and 2 more$/)
    }
  })

  test('keys that share tags are found by their number, or by going through all', async () => {
    const words = ['inspect', url, '--prefix', 'api', '--key', 'tagged']
    for (const more of [['--cluster-tags', '5', '--policy', POLICY], []]) {
      expect(await json<KeyInspection>([...words, ...more])).toMatchObject({ states: [{ key: 'tagged', used: 3 }] })
    }
  })

  test('the hottest are those of all nodes, and nobody has written', async () => {
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
        expect(found.sample).toMatchObject({ read: 61, isComplete: true, gone: 1 })
      },
    )
    await run()
  })

  test('keys are changed where they are', async () => {
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

  test('is reached by REDIS_URL, by --url-file and by REDIS_PASSWORD', async () => {
    const file = join(folder, 'url')
    writeFileSync(file, `${env.REDIS_URL}\n`)
    const inspect = words('inspect', ...key, '--policy', POLICY)
    for (const said of [
      await told(inspect, { env }),
      await told([...inspect, '--url-file', file]),
      await told([...inspect, server.tlsUrl], { env: { REDIS_PASSWORD: SECRET } }),
      await told([...inspect, server.tlsUrl], { env: { REDIS_PASSWORD: SECRET, REDIS_USERNAME: 'default' } }),
    ]) {
      expect(expectQuiet(said).code).toBe(0)
      expect(said.stdout).toMatch(/^ {2}used: 3 of 20 \(15 %\)$/m)
    }
  })

  test('every command works there, and none tells the password', async () => {
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
      const { code, stdout } = expectQuiet(await told(words(command, ...more), { env }))
      expect({ command, code }).toEqual({ command, code: 0 })
      expect(stdout).toContain(`localhost:${server.port}`)
    }
  })

  test('a URL on the command line that holds a password is noted, without it', async () => {
    const { code, stderr } = await told(words('inspect', '--key', 'nobody', env.REDIS_URL))
    expect(code).toBe(1)
    expect(stderr).toMatch(/^tollgate: note: this machine's list of processes shows the URL's password; /)
  })

  test('what fails is told without the password', async () => {
    const plain = server.tlsUrl.replace('rediss', 'redis')
    for (const [surroundings, code, complaint] of [
      [{ REDIS_URL: server.tlsUrl.replace('//', `//:${ENCODED}x@`) }, 3, /authentication failed/],
      [{ REDIS_URL: server.tlsUrl }, 3, /auth|login/i],
      [{ REDIS_URL: `rediss://:${ENCODED}@127.0.0.1:1` }, 3, /127\.0\.0\.1:1\b/],
      [{ REDIS_URL: `redis://:${ENCODED}@no host` }, 2, /REDIS_URL must be a Redis URL/],
      [{ REDIS_URL: `http://:${ENCODED}@localhost` }, 2, /REDIS_URL must be a Redis URL/],
      [{ REDIS_URL: `redis://:${ENCODED}@localhost/?x=${ENCODED}` }, 2, /REDIS_URL must have no query/],
      [{ REDIS_URL: plain, REDIS_PASSWORD: SECRET }, 2, /are for TLS/],
      [{}, 2, /the URL of Redis is missing/],
    ] as const) {
      const said = await told(words('inspect', ...key, '--timeout', '2s'), { env: surroundings })
      expect({ code: said.code, stdout: said.stdout }).toEqual({ code, stdout: '' })
      expect(said.stderr).toMatch(/^tollgate: .*\n$/)
      expect(said.stderr).toMatch(complaint)
    }
    const stranger = await told(['inspect', '--prefix', 'api', ...key, '--timeout', '2s'], { env })
    expect(stranger).toMatchObject({ code: 3, stdout: '' })
    expect(stranger.stderr).toMatch(/certificate|UnknownIssuer/i)
    const missing = await told(words('inspect', ...key, '--url-file', join(folder, 'none')))
    expect(missing).toMatchObject({ code: 3, stderr: expect.stringMatching(/^tollgate: --url-file: .*ENOENT/) })
  })
})

test('a user who may only read can look, without a policy', async () => {
  const summary = ['get', 'lrange', 'hgetall', 'zrange', 'zcard', 'zcount', 'scan', 'time', 'dbsize', 'hello', 'auth']
  const user = `user looker on >${SECRET} ~api:* ${summary.map((name) => `+${name}`).join(' ')}`
  await using server = await RedisServer.start({ config: [user] })
  await taken({ url: server.url }, ['user:42'])
  const env = { REDIS_URL: server.url, REDIS_USERNAME: 'looker', REDIS_PASSWORD: SECRET }
  const look = expectQuiet(await told(['inspect', '--prefix', 'api', '--key', 'user:42'], { env }))
  expect(look).toMatchObject({ code: 0, stdout: expect.stringContaining('used: 3 of 20') })
  const top = expectQuiet(await told(['top', '--prefix', 'api'], { env }))
  expect(top).toMatchObject({ code: 0, stdout: expect.stringContaining('user:42') })
  const reset = await told(['reset', '--prefix', 'api', '--key', 'user:42', '--policy', POLICY], { env })
  expect(reset).toMatchObject({ code: 3, stdout: '', stderr: expect.stringMatching(/no permissions/i) })
  const other = await told(['inspect', '--prefix', 'other', '--key', 'user:42'], { env })
  expect(other).toMatchObject({ code: 3, stdout: '', stderr: expect.stringMatching(/no permissions/i) })
})

test('the master that sentinels know is looked at, and a unix socket', async () => {
  await using group = await SentinelGroup.start({ password: SECRET, sentinelPassword: 'another' })
  const [sentinel] = group.sentinels as [RedisServer]
  const master = await group.master()
  await taken({ url: master.url, password: SECRET }, ['user:42'])
  const env = { REDIS_URL: sentinel.url, REDIS_PASSWORD: SECRET, REDIS_SENTINEL_PASSWORD: 'another' }
  const words = ['inspect', '--prefix', 'api', '--key', 'user:42', '--policy', POLICY]
  const { code, stdout } = expectQuiet(await told([...words, '--sentinel', group.name], { env }))
  expect(code).toBe(0)
  expect(stdout).toContain(` at 127.0.0.1:${master.port}, `)
  expect(stdout).toContain('used: 3 of 20')
  const unknown = await told([...words, '--sentinel', 'nobody', '--timeout', '2s'], { env })
  expect(unknown).toMatchObject({ code: 3, stdout: '' })
  expectSecret(unknown, 'another')
  const socket = { REDIS_URL: `redis+unix://${master.socketPath}`, REDIS_PASSWORD: SECRET }
  expect(expectQuiet(await told(words, { env: socket })).stdout).toContain('used: 3 of 20')
})

test('a server that does not answer is given up after --timeout', async () => {
  await using server = await RedisServer.start()
  server.freeze()
  const words = ['inspect', server.url, '--prefix', 'api', '--key', 'user:42', '--timeout', '300ms']
  const said = await told(words)
  server.thaw()
  expect(said).toMatchObject({ code: 3, stdout: '' })
  expect(said.stderr).toMatch(/^tollgate: .*in time/)
})
