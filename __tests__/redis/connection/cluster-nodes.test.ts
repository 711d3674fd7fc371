/** Nodes of a cluster as they are found: under other names, without an owner of a slot, with few rights. */

import { fixedWindow, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import { tollgate } from '../../cli/command.js'
import { json } from '../../cli/redis/server.js'
import { failureOf } from '../../failure.js'
import { CertificateAuthority } from '../../servers/certificates.js'
import { RedisCluster } from '../../servers/cluster.js'
import { freePort } from '../../servers/ports.js'
import type { RedisServer } from '../../servers/redis-server.js'
import { TlsTerminator } from '../../servers/server-tls.js'
import { until } from '../../servers/until.js'
import { type Outcome, outcome } from '../help.js'

/** A deadline that no busy machine misses, and that ends before the topology is queried again by itself. */
const DEADLINE_MS = 12_000
const ENDLESS = fixedWindow({ limit: 1_000_000, window: '1d' })
const KEYS = Array.from({ length: 60 }, (_, number) => `key-${number}`)

let cluster: RedisCluster

beforeEach(async () => {
  cluster = await RedisCluster.start({ config: ['cluster-require-full-coverage no'] })
})

afterEach(() => cluster.stop())

/** Runs with a limiter on a store of its own. */
async function withLimiter(
  options: Partial<RedisStoreOptions>,
  run: (limiter: RateLimiter, store: RedisStore) => Promise<void>,
): Promise<void> {
  const seeds = { nodes: [`127.0.0.1:${cluster.nodes[0]?.port}`] }
  await using store = new RedisStore({ cluster: seeds, commandTimeout: DEADLINE_MS, ...options })
  await run(new RateLimiter(ENDLESS, { store, prefix: 'nodes' }), store)
}

function calls(limiter: RateLimiter, keys: readonly string[]): Promise<Outcome[]> {
  return Promise.all(keys.map((key) => outcome(limiter.take(key))))
}

/** The messages of failed calls. */
function messages(outcomes: readonly Outcome[]): string[] {
  return [...new Set(outcomes.flatMap(({ error }) => (error === undefined ? [] : [error.message])))]
}

/** Sets options of all nodes, and waits until all of them list a text for each node. */
async function announce(
  lines: readonly (readonly [name: string, value: (node: RedisServer, index: number) => string | number])[],
  listed: (node: RedisServer, index: number) => string,
): Promise<void> {
  for (const [name, value] of lines) {
    await Promise.all(cluster.nodes.map((node, index) => node.command('CONFIG', 'SET', name, value(node, index))))
  }
  const texts = cluster.nodes.map(listed)
  await until('the nodes know how to name each other', async () => {
    const views = await Promise.all(cluster.nodes.map((node) => node.command('CLUSTER', 'SLOTS')))
    return views.every((view) => texts.every((text) => JSON.stringify(view).includes(text)))
  })
}

test('a slot without an owner that gets one is served at once', async () => {
  const [key = ''] = KEYS
  const slot = await cluster.slotOf(`{${key}}`)
  const owner = await cluster.owner(slot)
  await Promise.all(cluster.nodes.map((node) => node.command('CLUSTER', 'DELSLOTS', slot).catch(() => {})))
  await until('no node lists the slot', async () => {
    const views = await Promise.all(cluster.nodes.map((node) => node.command<[number, number][]>('CLUSTER', 'SLOTS')))
    return views.every((ranges) => ranges.every(([from, to]) => slot < from || slot > to))
  })
  await withLimiter({}, async (limiter) => {
    // Calls on other keys show that the store has the slot map.
    await calls(limiter, KEYS.slice(1))
    await owner.command('CLUSTER', 'ADDSLOTS', slot)
    const [{ error, ms } = {}] = await calls(limiter, [key])
    expect(error).toBeUndefined()
    expect(ms).toBeLessThan(DEADLINE_MS)
  })
})

test.each([
  ['exec', DEADLINE_MS],
  // The calls fail at their deadlines. A busy machine has queried the topology by then.
  ['cluster|slots', 3_000],
])('a missing right to %s is named', async (command, commandTimeout) => {
  await Promise.all(cluster.nodes.map((node) => node.command('ACL', 'SETUSER', 'default', `-${command}`)))
  await withLimiter({ commandTimeout }, async (limiter) => {
    const waves: Promise<Outcome[]>[] = []
    // Several flushes with calls on one slot while the first is under way.
    for (let wave = 0; wave < 200; wave++) {
      waves.push(calls(limiter, KEYS.slice(0, 3)))
      await new Promise(setImmediate)
    }
    const outcomes = (await Promise.all(waves)).flat()
    // Where the engine's threads get no processor at the deadline, the process itself ends the calls.
    const ended = outcomes.filter(({ error }) => error?.code !== 'STORE_TIMEOUT')
    expect(messages(ended).length).toBeGreaterThan(0)
    expect(messages(ended).filter((message) => !message.includes('NOPERM') || !message.includes(command))).toEqual([])
    expect(ended.filter(({ error }) => error?.charged === 'unknown')).toEqual([])
  })
})

describe('behind a network address translation', () => {
  test('nodes are reached by the addresses of natMap', async () => {
    const name = (node: RedisServer) => `node-${node.port}.invalid`
    await announce(
      [
        ['cluster-announce-hostname', name],
        ['cluster-preferred-endpoint-type', () => 'hostname'],
      ],
      name,
    )
    const natMap = Object.fromEntries(
      cluster.nodes.map((node, index) => {
        const [from, to] = [`${name(node)}:${node.port}`, { host: '127.0.0.1', port: node.port }]
        return [from, index === 0 ? to : `127.0.0.1:${node.port}`]
      }),
    )
    const nodes = [`127.0.0.1:${cluster.nodes[0]?.port}`]
    await withLimiter({ cluster: { nodes, natMap } }, async (limiter) => {
      expect(messages(await calls(limiter, KEYS))).toEqual([])
    })
    const pairs = cluster.nodes.flatMap((node) => ['--nat', `${name(node)}:${node.port}=127.0.0.1:${node.port}`])
    const target = [`redis://${nodes[0]}`, '--prefix', 'nodes', ...pairs]
    for (const key of KEYS.slice(0, 3)) {
      expect(await json(['block', ...target, '--key', key, '--for', '1h'])).toMatchObject({
        decision: { status: 'blocked' },
      })
    }
    const { blocked } = await json<{ blocked: unknown[] }>(['blocked', ...target])
    expect(blocked).toHaveLength(3)
    expect(await tollgate(['top', ...target, '--nat', 'one'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^tollgate: --nat must be a pair of addresses/),
    })
  })

  test('errors have the name and the rule of natMap', () => {
    const message = (natMap: unknown) =>
      failureOf(() => new RedisStore({ cluster: { nodes: ['a'], natMap: natMap as never } })).message
    expect(message(5)).toMatch(/^cluster\.natMap must be an object such as/)
    expect(message({ 'a b': 'c' })).toBe(
      'the key of cluster.natMap["a b"] must be host, host:port, [address]:port or { host, port }',
    )
    expect(message({ 'a:1': { port: 5 } })).toMatch(/^cluster\.natMap\["a:1"\]\.host must be a non-empty string/)
  })
})

describe('with a TLS certificate for each node', () => {
  const ports: number[] = []
  let terminators: TlsTerminator[]
  let ca: string

  /** Puts TLS in front of each node, with a certificate for these names. */
  async function serveTls(hosts: readonly (readonly string[])[]): Promise<void> {
    const authority = await CertificateAuthority.make()
    ca = authority.certificate
    for (const [index, node] of cluster.nodes.entries()) {
      ports[index] = await freePort()
      const server = await authority.issue({ hosts: hosts[index] ?? [] })
      terminators.push(await TlsTerminator.start(ports[index], node.socketPath, { server }))
    }
  }

  /** The store knows the first node by an address that is not in its certificate. */
  function withTls(run: (limiter: RateLimiter) => Promise<void>): Promise<void> {
    const nodes = [`127.0.0.1:${ports[0]}`]
    return withLimiter({ cluster: { nodes }, tls: { ca, serverName: 'seed.example' } }, run)
  }

  const port = (_: RedisServer, index: number) => ports[index] as number

  beforeEach(() => {
    terminators = []
  })

  afterEach(() => Promise.all(terminators.map((terminator) => terminator.close())))

  test('serverName is that of the seeds, and a node that is reported by its name has its own', async () => {
    await serveTls([['seed.example', 'localhost'], ['localhost'], ['localhost']])
    await announce(
      [
        ['cluster-announce-hostname', () => 'localhost'],
        ['cluster-preferred-endpoint-type', () => 'hostname'],
        ['cluster-announce-port', port],
      ],
      (_, index) => `"localhost",${ports[index]}`,
    )
    await withTls(async (limiter) => expect(messages(await calls(limiter, KEYS))).toEqual([]))
  })

  test('a node that is reported by its address has a certificate for serverName or for the address', async () => {
    await serveTls([['seed.example'], ['127.0.0.1'], ['127.0.0.1']])
    await announce([['cluster-announce-port', port]], (_, index) => `"127.0.0.1",${ports[index]}`)
    await withTls(async (limiter) => expect(messages(await calls(limiter, KEYS))).toEqual([]))
  })

  test('serverName is also that of listed nodes that natMap names', async () => {
    await serveTls([['seed.example'], ['seed.example'], ['seed.example']])
    const nodes = ports.map((tlsPort) => `localhost:${tlsPort}`)
    const pairs = cluster.nodes.map((node, index) => [`127.0.0.1:${node.port}`, nodes[index]])
    const options = { cluster: { nodes, natMap: Object.fromEntries(pairs) }, tls: { ca, serverName: 'seed.example' } }
    await withLimiter(options, async (limiter) => expect(messages(await calls(limiter, KEYS))).toEqual([]))
  })

  test('a node with neither name in its certificate is refused', async () => {
    await serveTls([['seed.example'], ['127.0.0.1'], ['other.example']])
    await announce([['cluster-announce-port', port]], (_, index) => `"127.0.0.1",${ports[index]}`)
    await withTls(async (limiter) => {
      expect(messages(await calls(limiter, KEYS)).join()).toMatch(/certificate/)
    })
  })
})

test('a store for one server warns if that is a node of a cluster of several', async () => {
  const warned: string[] = []
  await using store = new RedisStore({ host: '127.0.0.1', port: cluster.nodes[0]?.port as number })
  store.on('warning', ({ code }) => warned.push(code))
  await until('the warning', async () => warned.length > 0)
  expect(warned).toEqual(['CLUSTER_NODE'])
})
