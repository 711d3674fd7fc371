/** The test cluster is real: it fails over, and moves slots with their keys, step by step. */
import { RedisCluster } from './cluster.js'
import type { RedisServer } from './redis-server.js'
import { until } from './until.js'

describe('three masters', () => {
  let cluster: RedisCluster

  beforeAll(async () => {
    cluster = await RedisCluster.start()
  })

  afterAll(() => cluster.stop())

  /** The owner of a key, and another master. */
  async function ends(name: string): Promise<[slot: number, owner: RedisServer, other: RedisServer]> {
    const slot = await cluster.slotOf(name)
    const owner = await cluster.owner(slot)
    return [slot, owner, cluster.nodes.find((node) => node !== owner) as RedisServer]
  }

  test('share the slots; a node that does not own a key names its owner', async () => {
    expect(cluster.nodes.length).toBe(3)
    const [slot, owner, other] = await ends('foo')
    expect(slot).toBe(12_182)
    expect(await owner.command('SET', 'foo', 'bar')).toBe('OK')
    await expect(other.command('GET', 'foo')).rejects.toThrow(`MOVED 12182 127.0.0.1:${owner.port}`)
  })

  test('move a slot with its keys, and a test may pause between the steps', async () => {
    const [slot, from, to] = await ends('{moving}')
    for (const name of ['{moving}1', '{moving}2', '{moving}3']) {
      await from.command('SET', name, name)
    }
    const move = await cluster.startMove(slot, to)
    // Existing keys are served, and missing ones are redirected to the target.
    expect(await from.command('GET', '{moving}1')).toBe('{moving}1')
    await expect(from.command('GET', '{moving}new')).rejects.toThrow(`ASK ${slot} 127.0.0.1:${to.port}`)
    await move.migrateKey('{moving}2')
    await expect(from.command('GET', '{moving}2')).rejects.toThrow('ASK')
    await expect(from.command('MGET', '{moving}1', '{moving}2')).rejects.toThrow('TRYAGAIN')
    expect((await move.keys(10)).sort()).toEqual(['{moving}1', '{moving}3'])
    expect(await move.migrate(1)).toBe(1)
    expect(await move.migrate(10)).toBe(1)
    expect(await move.migrate(10)).toBe(0)
    expect(await cluster.owner(slot)).toBe(from)
    await move.finish()
    await cluster.agreed()
    expect(await cluster.owner(slot)).toBe(to)
    expect(await to.command('MGET', '{moving}1', '{moving}2', '{moving}3')).toEqual([
      '{moving}1',
      '{moving}2',
      '{moving}3',
    ])
    await expect(from.command('GET', '{moving}1')).rejects.toThrow('MOVED')
    await cluster.moveSlot(slot, from)
    await cluster.agreed()
    expect(await from.command('GET', '{moving}3')).toBe('{moving}3')
  })
})

test('a replica replaces a killed master, which comes back as a replica', async () => {
  await using cluster = await RedisCluster.start({ replicas: 1 })
  const before = await cluster.owner(0)
  const [replica] = await cluster.replicas(0)
  await before.command('SET', '{06S}key', 'kept')
  await before.command('WAIT', 1, 30_000)
  await before.kill()
  const after = await cluster.newOwner(0, before)
  expect(after).toBe(replica)
  expect(await after.command('GET', '{06S}key')).toBe('kept')
  await before.begin()
  await cluster.agreed()
  const [first] = await before.command<[string]>('ROLE')
  expect(first).toBe('slave')
})

test('a replica replaces a frozen master', async () => {
  await using cluster = await RedisCluster.start({ replicas: 1, nodeTimeoutMs: 500 })
  const before = await cluster.owner(16_383)
  before.freeze()
  const after = await cluster.newOwner(16_383, before)
  expect((await after.command<[string]>('ROLE'))[0]).toBe('master')
})

test('without a replica a cluster with a killed master is down until the master is back', async () => {
  await using cluster = await RedisCluster.start({ nodeTimeoutMs: 500 })
  const [one, other] = [await cluster.owner(0), await cluster.owner(16_383)]
  await one.kill()
  const info = () => other.command<string>('CLUSTER', 'INFO')
  await until('the cluster is down', async () => (await info()).includes('cluster_state:fail'))
  await expect(other.command('GET', 'foo')).rejects.toThrow('CLUSTERDOWN')
  await one.begin()
  await cluster.agreed()
})
