/** Stores of several servers are closed during a fault, and floods of calls begin. */
import { RedisCluster } from '../../../__tests__/servers/cluster.js'
import type { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { SentinelGroup } from '../../../__tests__/servers/sentinel.js'
import { until } from '../../../__tests__/servers/until.js'
import type { Fault } from '../fault.js'
import { closedInTrouble, floodedWhileDown, type Trouble } from '../flood.js'
import { optionsOf as clusterOptions } from './cluster.js'
import { optionsOf as sentinelOptions } from './sentinel.js'

/** No node considers another dead during a row. */
const PATIENT = { nodeTimeoutMs: 60_000 } as const
const PATIENT_SENTINELS = { downAfterMs: 60_000 } as const

function all(servers: readonly RedisServer[], run: (server: RedisServer) => unknown): () => Promise<unknown> {
  return () => Promise.all(servers.map(run))
}

const kill = (server: RedisServer) => server.kill()
const begin = (server: RedisServer) => server.begin()
const freeze = (server: RedisServer) => server.freeze()
const thaw = (server: RedisServer) => server.thaw()

const sentinelFlood: Fault = {
  name: 'sentinel-flood',
  title: 'Sentinel: 10,000 calls in one turn of the event loop without sentinels and servers; then all start',
  isLong: true,
  run: async () => {
    await using group = await SentinelGroup.start(PATIENT_SENTINELS)
    await Promise.all([...group.sentinels, ...group.servers].map(kill))
    return await floodedWhileDown(sentinelOptions(group), async () => {
      await Promise.all(group.servers.map(begin))
      await Promise.all(group.sentinels.map(begin))
    })
  },
}

const clusterFlood: Fault = {
  name: 'cluster-flood',
  title: 'Cluster: 10,000 calls in one turn of the event loop without a node; then all start',
  isLong: true,
  run: async () => {
    await using cluster = await RedisCluster.start()
    await Promise.all(cluster.nodes.map(kill))
    return await floodedWhileDown(clusterOptions(cluster), async () => {
      await Promise.all(cluster.nodes.map(begin))
      await cluster.agreed()
    })
  },
}

const sentinelClose: Fault = {
  name: 'sentinel-close',
  title: 'Sentinel: close() with 1,000 calls in flight, under several conditions',
  isLong: true,
  run: async () => {
    await using group = await SentinelGroup.start(PATIENT_SENTINELS)
    const { servers, sentinels } = group
    const [master] = servers as [RedisServer]
    const troubles: readonly Trouble[] = [
      { name: 'none', begin: async () => {}, end: async () => {} },
      { name: 'master killed', begin: () => master.kill(), end: () => master.begin() },
      { name: 'master frozen', begin: all([master], freeze), end: all([master], thaw) },
      { name: 'sentinels killed', begin: all(sentinels, kill), end: all(sentinels, begin) },
      {
        name: 'sentinels frozen, master killed',
        begin: async () => {
          await all(sentinels, freeze)()
          await master.kill()
        },
        end: async () => {
          await all(sentinels, thaw)()
          await master.begin()
        },
      },
      { name: 'all killed', begin: all([...sentinels, ...servers], kill), end: async () => {} },
    ]
    return await closedInTrouble(sentinelOptions(group), troubles)
  },
}

const clusterClose: Fault = {
  name: 'cluster-close',
  title: 'Cluster: close() with 1,000 calls in flight, under several conditions',
  isLong: true,
  run: async () => {
    await using cluster = await RedisCluster.start(PATIENT)
    const { nodes } = cluster
    const [first, second] = nodes as [RedisServer, RedisServer]
    const troubles: readonly Trouble[] = [
      { name: 'none', begin: async () => {}, end: async () => {} },
      { name: 'a node frozen', begin: all([first], freeze), end: all([first], thaw) },
      { name: 'all frozen', begin: all(nodes, freeze), end: all(nodes, thaw) },
      {
        name: 'a slot half moved',
        begin: async () => {
          await cluster.startMove(await cluster.slotOf('{key-1}'), second)
        },
        end: async () => {},
      },
      {
        name: 'a node killed',
        begin: () => first.kill(),
        end: async () => {
          await first.begin()
          await until('a node has come back', async () => (await first.info('cluster_enabled')) === '1')
        },
      },
      { name: 'all killed', begin: all(nodes, kill), end: async () => {} },
    ]
    return await closedInTrouble(clusterOptions(cluster), troubles)
  },
}

export const SEVERAL_FAULTS: readonly Fault[] = [sentinelFlood, sentinelClose, clusterFlood, clusterClose]
