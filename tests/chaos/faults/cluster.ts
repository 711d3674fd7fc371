/** A cluster loses a node, has a slow node, or moves slots. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisStoreOptions } from 'tollgate'
import { RedisCluster, type RedisClusterOptions } from '../../../__tests__/servers/cluster.js'
import type { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { TcpProxy } from '../../../__tests__/servers/tcp-proxy.js'
import { FAILED_OVER, notingLosses } from '../failover.js'
import type { Fault, Pace, Row } from '../fault.js'
import { LONG_TIMEOUT_MS, type LoadScene, type LoadSetting, type Promised, TIMEOUT_MS, withLoad } from '../scene.js'
import { COUNTED, KEYS } from '../traffic.js'
import { type Sight, Watch } from '../watch.js'

/** Options of a store for the cluster. */
export function optionsOf(cluster: RedisCluster, tags?: number): RedisStoreOptions {
  const nodes = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`)
  return { cluster: { nodes, ...(tags === undefined ? {} : { tags }) } }
}

/** The settings of a scene on a cluster. */
interface Setting extends Omit<LoadSetting, 'options'> {
  readonly nodes?: RedisClusterOptions
  readonly tags?: number
}

/** Runs a load on a new cluster, injects a fault, and returns the results. */
async function onCluster(
  pace: Pace,
  { nodes, tags, ...setting }: Setting,
  inject: (cluster: RedisCluster, scene: LoadScene) => Promise<void>,
): Promise<Row> {
  await using cluster = await RedisCluster.start(nodes)
  return await withLoad(pace, { ...setting, options: optionsOf(cluster, tags) }, (scene) => inject(cluster, scene))
}

/** The slot of a key, which is the same for all prefixes, and its owner. */
async function placeOf(cluster: RedisCluster, key: string): Promise<{ slot: number; owner: RedisServer }> {
  const slot = await cluster.slotOf(`{${key}}`)
  return { slot, owner: await cluster.owner(slot) }
}

/** Some keys of each node, by node. */
async function keysByOwner(cluster: RedisCluster, perNode: number): Promise<Map<RedisServer, string[]>> {
  const found = new Map<RedisServer, string[]>()
  for (let number = 0; [...found.values()].filter((keys) => keys.length >= perNode).length < 3; number++) {
    const key = `watched-${number}`
    const { owner } = await placeOf(cluster, key)
    const keys = found.get(owner) ?? []
    found.set(owner, keys.length < perNode ? [...keys, key] : keys)
  }
  return found
}

const WITH_REPLICAS = { replicas: 1 } as const

const kill: Fault = {
  name: 'cluster-kill',
  title: 'Cluster: a master with a replica is killed, and restarts',
  isLong: true,
  run: (pace) =>
    onCluster(pace, { nodes: WITH_REPLICAS, promised: notingLosses(FAILED_OVER) }, async (cluster, scene) => {
      const { slot, owner } = await placeOf(cluster, 'hot')
      const start = performance.now()
      await owner.kill()
      await cluster.newOwner(slot, owner)
      scene.healthy()
      scene.note(`another owner after ${(performance.now() - start).toFixed()} ms`)
      await sleep(500)
      await owner.begin()
      await sleep(pace.faultMs)
    }),
}

const pause: Fault = {
  name: 'cluster-pause',
  title: 'Cluster: a master is frozen until its replica has the slots, and then thawed',
  isLong: true,
  run: (pace) =>
    onCluster(pace, { nodes: WITH_REPLICAS, promised: notingLosses(FAILED_OVER) }, async (cluster, scene) => {
      const { slot, owner } = await placeOf(cluster, 'hot')
      const start = performance.now()
      owner.freeze()
      await cluster.newOwner(slot, owner)
      scene.healthy()
      scene.note(`another owner after ${(performance.now() - start).toFixed()} ms`)
      await sleep(500)
      owner.thaw()
      await sleep(pace.faultMs)
    }),
}

const killLone: Fault = {
  name: 'cluster-kill-lone',
  title: 'Cluster with partial coverage: a master without a replica is killed, and restarts empty',
  isLong: true,
  run: async (pace) => {
    const lost = new Set<string>()
    const losses = (_: string, key: string) => (lost.has(key) ? 1 : 0)
    const promised = async () => ({ errors: AWAY, losses, losesCount: lost.has(COUNTED) })
    const nodes = { config: ['cluster-require-full-coverage no'] }
    return await onCluster(pace, { nodes, promised }, async (cluster, scene) => {
      const { owner } = await placeOf(cluster, 'hot')
      for (const key of [...KEYS, COUNTED]) {
        if ((await placeOf(cluster, key)).owner === owner) {
          lost.add(key)
        }
      }
      const watched = await keysByOwner(cluster, 4)
      const own = watched.get(owner) ?? []
      const others = [...watched].flatMap(([node, keys]) => (node === owner ? [] : keys))
      const watch = new Watch(scene.store, scene.delay, [...own, ...others])
      await sleep(200)
      const killed = performance.now()
      await owner.kill()
      await sleep(TIMEOUT_MS + 250 + pace.faultMs)
      const now = performance.now()
      await owner.begin()
      await cluster.agreed()
      scene.healthy()
      await watch.stop()
      const [dead, alive] = [watch.sight(own, killed + TIMEOUT_MS + 250, now), watch.sight(others, killed, now)]
      noteSights(scene, { 'its keys, once it is known to be down': dead, 'the others': alive })
      scene.expect(dead.failed === dead.calls, 'its keys fail')
      scene.expect(dead.longestMs < 50, `and at once, not after ${dead.longestMs.toFixed()} ms`)
      scene.expect(alive.failed === 0, 'no other key fails')
    })
  },
}

/** Codes of calls without a server, and of calls sent just before it went away. */
const AWAY = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] as const

const killWhole: Fault = {
  name: 'cluster-not-whole',
  title: 'Cluster with full coverage (the default): a master without a replica is killed, and restarts empty',
  isLong: true,
  run: (pace) =>
    onCluster(pace, { promised: { errors: AWAY, losses: 1, losesCount: true } }, async (cluster, scene) => {
      const { owner } = await placeOf(cluster, 'hot')
      await owner.kill()
      // The others notice the failure after a second; then the fault continues for a while.
      await sleep(2_000 + pace.faultMs)
      const { state, reason } = scene.store.status()
      scene.note(`${state}: ${reason}`)
      scene.expect(state === 'down', 'the store is known to be down')
      await owner.begin()
      await cluster.agreed()
      scene.healthy()
    }),
}

/** Moves each slot with keys to the next node, key by key, so that callers use half-moved slots. */
async function moveAll(cluster: RedisCluster, scene: LoadScene, pace: Pace): Promise<void> {
  const end = performance.now() + pace.faultMs
  let [moves, moved] = [0, 0]
  do {
    for (const slot of await slotsInUse(cluster)) {
      const masters = cluster.nodes
      const from = masters.indexOf(await cluster.owner(slot))
      const move = await cluster.startMove(slot, masters[(from + 1) % masters.length] as RedisServer)
      await sleep(20)
      for (let keys = await move.keys(1); keys.length > 0; keys = await move.keys(1)) {
        moved += await move.migrate(1)
        await sleep(10)
      }
      await sleep(20)
      await move.finish()
      moves++
    }
  } while (performance.now() < end)
  scene.healthy()
  const [asked, redirected] = [await counted(cluster, 'ASK'), await counted(cluster, 'MOVED')]
  scene.note(
    `${moves} moves of a slot, ${moved} keys; ${redirected} MOVED, ${asked} ASK, ${await counted(cluster, 'TRYAGAIN')} TRYAGAIN`,
  )
  scene.expect(redirected > 0 && asked > 0, 'MOVED and ASK are seen')
}

/** The slots that hold keys. */
async function slotsInUse(cluster: RedisCluster): Promise<readonly number[]> {
  const names = await Promise.all(cluster.nodes.map((node) => node.command<string[]>('KEYS', '*')))
  return [...new Set(await Promise.all(names.flat().map((name) => cluster.slotOf(name))))]
}

/** How often the nodes have answered with this error. */
async function counted(cluster: RedisCluster, error: string): Promise<number> {
  const told = await Promise.all(cluster.nodes.map((node) => node.info(`errorstat_${error}`)))
  return told.reduce((sum, line) => sum + Number(/count=(\d+)/.exec(line ?? '')?.[1] ?? 0), 0)
}

const move: Fault = {
  name: 'cluster-move',
  title: 'Cluster: slots with their keys move from node to node (MOVED, ASK)',
  run: (pace) =>
    onCluster(pace, { timeoutMs: LONG_TIMEOUT_MS, promised: { errors: [] } }, (cluster, scene) =>
      moveAll(cluster, scene, pace),
    ),
}

const moveTags: Fault = {
  name: 'cluster-move-tags',
  title: 'Cluster with `tags`: slots with their keys move from node to node (MOVED, ASK, TRYAGAIN)',
  isLong: true,
  run: (pace) =>
    onCluster(pace, { timeoutMs: LONG_TIMEOUT_MS, tags: 4, promised: { errors: [] } }, (cluster, scene) =>
      moveAll(cluster, scene, pace),
    ),
}

/** The delay added to a round trip to the slow node, in milliseconds. */
const SLOW_MS = 300

const slowNode: Fault = {
  name: 'cluster-slow-node',
  title: 'Cluster: one node is 300 ms away',
  isLong: true,
  run: async (pace) => {
    await using cluster = await RedisCluster.start()
    const slow = (await placeOf(cluster, 'hot')).owner
    const watched = await keysByOwner(cluster, 4)
    await using proxy = await TcpProxy.start(slow)
    // All nodes announce the address of the proxy for the slow node.
    await slow.command('CONFIG', 'SET', 'cluster-announce-bus-port', slow.port + 10_000)
    await slow.command('CONFIG', 'SET', 'cluster-announce-port', proxy.port)
    await announced(cluster, proxy.port)
    const nodes = cluster.nodes.map((node) => `127.0.0.1:${node === slow ? proxy.port : node.port}`)
    // The busiest key is on the slow node. Its batches are sent one after the other, each takes 300
    // ms, and some calls may have too many calls before them.
    const promised: Promised = { errors: AWAY, mustSee: [] }
    const setting = { options: { cluster: { nodes } }, timeoutMs: LONG_TIMEOUT_MS, promised }
    return await withLoad(pace, setting, async (scene) => {
      const own = watched.get(slow) ?? []
      const others = [...watched].flatMap(([node, keys]) => (node === slow ? [] : keys))
      const watch = new Watch(scene.store, scene.delay, [...own, ...others])
      await sleep(200)
      const from = performance.now()
      proxy.latencyMs = SLOW_MS / 2
      await sleep(Math.max(pace.faultMs, 4 * SLOW_MS))
      const to = performance.now()
      proxy.latencyMs = 0
      await sleep(SLOW_MS)
      scene.healthy()
      await watch.stop()
      const [away, near] = [watch.sight(own, from, to), watch.sight(others, from, to)]
      noteSights(scene, { 'its keys': away, 'the others': near })
      scene.expect(away.medianMs >= SLOW_MS * 0.75, 'its keys are slow')
      scene.expect(near.medianMs < SLOW_MS / 6, 'and no others')
      scene.expect(away.failed + near.failed === 0, 'no call on a key that is not busy fails')
    })
  },
}

/** Waits until all nodes report one of them at this port. */
async function announced(cluster: RedisCluster, port: number): Promise<void> {
  for (let known = false; !known; await sleep(20)) {
    const told = await Promise.all(cluster.nodes.map((node) => node.command<string>('CLUSTER', 'NODES')))
    known = told.every((text) => text.includes(`:${port}@`))
  }
}

function noteSights({ note }: LoadScene, sights: Readonly<Record<string, Sight>>): void {
  for (const [what, { calls, failed, medianMs, longestMs }] of Object.entries(sights)) {
    note(
      `${what}: ${calls} calls, ${failed} failed, ${medianMs.toFixed(1)} ms (median), ${longestMs.toFixed()} ms at most`,
    )
  }
}

export const CLUSTER_FAULTS: readonly Fault[] = [kill, pause, killLone, killWhole, move, moveTags, slowNode]
