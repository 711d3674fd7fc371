/** The Redis servers of a soak, and the faults that they have. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisStoreOptions } from 'tollgate'
import { CertificateAuthority } from '../../../__tests__/servers/certificates.js'
import { RedisCluster } from '../../../__tests__/servers/cluster.js'
import { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { SentinelGroup } from '../../../__tests__/servers/sentinel.js'
import { TcpProxy } from '../../../__tests__/servers/tcp-proxy.js'
import { optionsOf as clusterOptions } from '../faults/cluster.js'
import { optionsOf as sentinelOptions } from '../faults/sentinel.js'
import { CHECKED_KEY } from './checked.js'

/** A fault of a target, from its begin until the servers are healthy. */
export interface SoakFault {
  readonly name: string
  /** How many times the counts of a key may be lost. Default: 0. */
  readonly losses?: number
  /** How long an old master may decide beside the new one. Default: 0. */
  readonly overlapMs?: number
  /** Injects the fault for a time, and repairs it. */
  run(ms: number): Promise<unknown>
}

/** One server, or several that work together. */
export interface SoakTarget {
  readonly name: string
  readonly options: RedisStoreOptions
  /** The servers with data. */
  readonly servers: readonly RedisServer[]
  readonly faults: readonly SoakFault[]
  /** Waits until all servers work together. Returns the addresses of the masters. */
  agreed(): Promise<string>
  stop(): Promise<void>
}

/** A server with TLS, behind a network that can fail. */
export async function single(): Promise<SoakTarget> {
  const authority = await CertificateAuthority.make()
  const server = await RedisServer.start({
    tls: { server: await authority.issue() },
    config: ['lua-time-limit 50'],
  })
  const proxy = await TcpProxy.start(server)
  const lasting = async (ms: number, begin: () => unknown, end: () => unknown) => {
    await begin()
    await sleep(ms)
    await end()
  }
  const repeated = async (ms: number, everyMs: number, run: () => Promise<unknown>) => {
    const end = performance.now() + ms
    while (performance.now() < end) {
      await run()
      await sleep(everyMs)
    }
  }
  const faults: SoakFault[] = [
    {
      name: 'killed',
      losses: 1,
      run: (ms) =>
        lasting(
          ms,
          () => server.kill(),
          () => server.begin(),
        ),
    },
    {
      name: 'frozen',
      run: (ms) =>
        lasting(
          ms,
          () => server.freeze(),
          () => server.thaw(),
        ),
    },
    {
      name: 'latency',
      run: (ms) =>
        lasting(
          ms,
          () => setLatency(proxy, 20),
          () => setLatency(proxy, 0),
        ),
    },
    {
      name: 'slow',
      run: (ms) =>
        lasting(
          ms,
          () => setLatency(proxy, 1_300),
          () => setLatency(proxy, 0),
        ).then(() => sleep(3_000)),
    },
    {
      name: 'silent',
      run: (ms) =>
        lasting(
          ms,
          () => proxy.hold('down'),
          () => [proxy.cut(), proxy.release()],
        ),
    },
    {
      name: 'refused',
      run: (ms) =>
        lasting(
          ms,
          () => proxy.refuse().then(() => proxy.cut()),
          () => proxy.accept(),
        ),
    },
    { name: 'cut', run: (ms) => repeated(ms, 300, async () => proxy.cut()) },
    { name: 'client-kill', run: (ms) => repeated(ms, 300, () => killClients(server)) },
    { name: 'script-flush', run: (ms) => repeated(ms, 200, () => server.command('SCRIPT', 'FLUSH')) },
    { name: 'flushed', losses: 1, run: () => server.command('FLUSHALL') },
    {
      name: 'oom',
      run: (ms) =>
        lasting(
          ms,
          () => setMemory(server, 1),
          () => setMemory(server, 0),
        ),
    },
    {
      name: 'busy',
      run: async (ms) => {
        const endless = server.command('EVAL', 'while true do end', 0).catch(() => {})
        await lasting(
          Math.min(ms, 2_000),
          () => {},
          () => server.command('SCRIPT', 'KILL'),
        )
        await endless
      },
    },
    {
      name: 'read-only',
      run: (ms) =>
        lasting(
          ms,
          () => server.command('REPLICAOF', '127.0.0.1', 1),
          () => server.command('REPLICAOF', 'NO', 'ONE'),
        ),
    },
  ]
  return {
    name: 'single',
    options: { url: `rediss://localhost:${proxy.port}`, tls: { ca: authority.certificate } },
    servers: [server],
    faults,
    agreed: async () => `${server.port}`,
    stop: async () => {
      await proxy.stop()
      await server.stop()
    },
  }
}

function setLatency(proxy: TcpProxy, ms: number): void {
  proxy.latencyMs = ms
}

function setMemory(server: RedisServer, bytes: number): Promise<unknown> {
  return server.command('CONFIG', 'SET', 'maxmemory', bytes)
}

function killClients(server: RedisServer): Promise<unknown> {
  return server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
}

/** How long a former master may decide until all clients know the new one: docs/failure-modes.md. */
const OVERLAP_MS = 2_000

/** Long, so that a busy machine causes no failover. */
const DOWN_AFTER_MS = 3_000

/** A master with a replica, and three sentinels. */
export async function sentinel(): Promise<SoakTarget> {
  const group = await SentinelGroup.start({ downAfterMs: DOWN_AFTER_MS, failoverTimeoutMs: 4_000 })
  const onMaster = (run: (master: RedisServer) => Promise<unknown>) => async () => run(await group.master())
  const faults: SoakFault[] = [
    {
      name: 'killed',
      losses: 1,
      run: onMaster(async (master) => {
        await master.kill()
        await group.newMaster(master).finally(() => master.begin())
      }),
    },
    {
      name: 'frozen',
      losses: 1,
      run: onMaster(async (master) => {
        master.freeze()
        await group.newMaster(master).finally(() => master.thaw())
      }),
    },
    {
      name: 'failover',
      losses: 1,
      overlapMs: OVERLAP_MS,
      run: onMaster(async (master) => {
        await group.sentinels[0]?.command('SENTINEL', 'FAILOVER', group.name)
        await group.newMaster(master)
      }),
    },
    {
      name: 'sentinels-gone',
      run: async (ms) => {
        await Promise.all(group.sentinels.map((one) => one.kill()))
        await sleep(ms)
        await Promise.all(group.sentinels.map((one) => one.begin()))
      },
    },
    { name: 'client-kill', run: onMaster(killClients) },
    { name: 'script-flush', run: onMaster((master) => master.command('SCRIPT', 'FLUSH')) },
    { name: 'flushed', losses: 1, run: onMaster((master) => master.command('FLUSHALL')) },
  ]
  return {
    name: 'sentinel',
    options: sentinelOptions(group),
    servers: group.servers,
    faults,
    agreed: async () => {
      await group.agreed()
      return `${(await group.master()).port}`
    },
    stop: () => group.stop(),
  }
}

/** Three masters, each with a replica. The checked keys are on one of them, which has the faults. */
export async function cluster(): Promise<SoakTarget> {
  const nodes = await RedisCluster.start({ replicas: 1, nodeTimeoutMs: DOWN_AFTER_MS })
  const slot = await nodes.slotOf(`{${CHECKED_KEY}}`)
  const onOwner = (run: (owner: RedisServer) => Promise<unknown>) => async () => run(await nodes.owner(slot))
  const faults: SoakFault[] = [
    {
      name: 'killed',
      losses: 1,
      run: onOwner(async (owner) => {
        await owner.kill()
        await nodes.newOwner(slot, owner).finally(() => owner.begin())
      }),
    },
    {
      name: 'frozen',
      losses: 1,
      run: onOwner(async (owner) => {
        owner.freeze()
        await nodes.newOwner(slot, owner).finally(() => owner.thaw())
      }),
    },
    {
      name: 'failover',
      losses: 1,
      overlapMs: OVERLAP_MS,
      run: onOwner(async (owner) => {
        const [replica] = await nodes.replicas(slot)
        await replica?.command('CLUSTER', 'FAILOVER')
        await nodes.newOwner(slot, owner)
      }),
    },
    {
      name: 'moved',
      run: onOwner(async (owner) => {
        const others = await Promise.all([0, 6_000, 12_000].map((one) => nodes.owner(one)))
        await nodes.moveSlot(slot, others.find((one) => one !== owner) as RedisServer)
      }),
    },
    { name: 'client-kill', run: onOwner(killClients) },
    { name: 'script-flush', run: onOwner((owner) => owner.command('SCRIPT', 'FLUSH')) },
    { name: 'flushed', losses: 1, run: onOwner((owner) => owner.command('FLUSHALL')) },
  ]
  return {
    name: 'cluster',
    options: clusterOptions(nodes),
    servers: nodes.nodes,
    faults,
    agreed: async () => {
      await nodes.agreed()
      const owners = await Promise.all([0, 6_000, 12_000, slot].map((one) => nodes.owner(one)))
      return owners.map(({ port }) => port).join()
    },
    stop: () => nodes.stop(),
  }
}
