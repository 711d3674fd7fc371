/** One store survives the same failure twenty times: it must not leak. */
import { setTimeout as sleep } from 'node:timers/promises'
import { RateLimiter, RedisStore, type RedisStoreOptions } from 'tollgate'
import { RedisCluster } from '../../__tests__/servers/cluster.js'
import { RedisServer } from '../../__tests__/servers/redis-server.js'
import { SentinelGroup } from '../../__tests__/servers/sentinel.js'
import type { Fault, Row } from '../fault.js'
import { type Ended, flood, rowOf } from '../flood.js'
import { LoopDelay } from '../loop-delay.js'
import { leaked, type Resources, resources } from '../resources.js'
import { TIMEOUT_MS } from '../scene.js'
import { POLICIES } from '../traffic.js'
import { optionsOf as clusterOptions } from './cluster.js'
import { optionsOf as sentinelOptions } from './sentinel.js'

const CYCLES = 20

/** Cycles after which a process holds everything it needs; later growth is a leak. */
const WARM_CYCLES = 5

/** Calls in each phase of a cycle: before, during and after the failure. */
const CALLS = 200

/** Calls succeed again within this time after the store's recovery, in milliseconds. */
const NORMAL_MS = 1_000

/** Kills and restarts servers under one store, with calls before, during and after each failure. */
async function cycled(
  options: RedisStoreOptions,
  kill: () => Promise<unknown>,
  begin: () => Promise<unknown>,
): Promise<Row> {
  const broken: string[] = []
  const all: Ended[] = []
  const delay = new LoopDelay()
  const store = new RedisStore({ commandTimeout: TIMEOUT_MS, ...options })
  const limiter = new RateLimiter(POLICIES.count, { store, prefix: 'cycled' })
  let [warm, normalMs] = [undefined as Resources | undefined, 0]
  delay.start()
  for (let cycle = 1; cycle <= CYCLES; cycle++) {
    all.push(...(await recovered(limiter)))
    await kill()
    all.push(...(await flood(limiter, CALLS)))
    // By now the store is known to be down.
    all.push(...(await flood(limiter, CALLS)))
    await begin()
    const begun = performance.now()
    all.push(...(await recovered(limiter)))
    const normal = performance.now()
    await sleep(10)
    normalMs = Math.max(normalMs, delay.ofWhich(begun, normal))
    if (cycle === WARM_CYCLES) {
      warm = await settled(limiter)
    }
  }
  const { note, broken: more } = leaked(warm as Resources, await settled(limiter))
  if (normalMs > NORMAL_MS) {
    broken.push(`calls failed for ${normalMs.toFixed()} ms after the store was there`)
  }
  delay.stop()
  await store.close()
  return rowOf(all, delay, { normalMs, notes: [`after ${CYCLES} cycles ${note}`], broken: [...broken, ...more] })
}

/** Calls until all of a flood succeed. */
async function recovered(limiter: RateLimiter): Promise<Ended[]> {
  for (;;) {
    const ended = await flood(limiter, CALLS)
    if (ended.every(({ code }) => code === 'settled')) {
      return ended
    }
    await sleep(5)
  }
}

/** The resources of the process while the store is healthy and nothing is being closed. */
async function settled(limiter: RateLimiter): Promise<Resources> {
  await recovered(limiter)
  await sleep(1_000)
  return resources()
}

const single: Fault = {
  name: 'cycles-single',
  title: 'a server is killed and restarted 20 times under one store',
  isLong: true,
  run: async () => {
    await using server = await RedisServer.start()
    return await cycled(
      { url: server.url },
      () => server.kill(),
      () => server.begin(),
    )
  },
}

const sentinel: Fault = {
  name: 'cycles-sentinel',
  title: 'Sentinel: the master and the sentinels are killed and restarted 20 times under one store',
  isLong: true,
  run: async () => {
    // No other master is elected, because it takes ten seconds each time until the old master
    // follows.
    await using group = await SentinelGroup.start({ downAfterMs: 60_000 })
    const [master] = group.servers as [RedisServer]
    const all = [master, ...group.sentinels]
    return await cycled(
      sentinelOptions(group),
      () => Promise.all(all.map((server) => server.kill())),
      () => Promise.all(all.map((server) => server.begin())),
    )
  },
}

const cluster: Fault = {
  name: 'cycles-cluster',
  title: 'Cluster: one node after the other is killed and restarted, 20 times under one store',
  isLong: true,
  run: async () => {
    await using cluster = await RedisCluster.start()
    let turn = 0
    return await cycled(
      clusterOptions(cluster),
      async () => cluster.nodes[turn % cluster.nodes.length]?.kill(),
      async () => {
        await cluster.nodes[turn++ % cluster.nodes.length]?.begin()
        await cluster.agreed()
      },
    )
  },
}

export const LEAK_FAULTS: readonly Fault[] = [single, sentinel, cluster]
