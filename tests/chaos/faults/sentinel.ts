/** Sentinels watch a master that dies, freezes, or hands over; or the sentinels die. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisStoreOptions } from 'tollgate'
import type { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { SentinelGroup } from '../../../__tests__/servers/sentinel.js'
import { until } from '../../../__tests__/servers/until.js'
import { FAILED_OVER, notingLosses } from '../failover.js'
import type { Fault, Pace, Row } from '../fault.js'
import { LONG_TIMEOUT_MS, type LoadScene, type LoadSetting, withLoad } from '../scene.js'

/** Options of a store for the group. */
export function optionsOf(group: SentinelGroup): RedisStoreOptions {
  return { sentinel: { nodes: group.sentinels.map(({ port }) => `127.0.0.1:${port}`), name: group.name } }
}

/** Runs a load on a new group, injects a fault, and returns the results. */
async function onGroup(
  pace: Pace,
  setting: Omit<LoadSetting, 'options'>,
  inject: (group: SentinelGroup, scene: LoadScene) => Promise<void>,
): Promise<Row> {
  await using group = await SentinelGroup.start()
  return await withLoad(pace, { ...setting, options: optionsOf(group) }, (scene) => inject(group, scene))
}

/** Waits for a new master; from then on the store is healthy. */
async function elected(group: SentinelGroup, before: RedisServer, scene: LoadScene): Promise<RedisServer> {
  const start = performance.now()
  const after = await group.newMaster(before)
  scene.healthy()
  scene.note(`a new master after ${(performance.now() - start).toFixed()} ms`)
  return after
}

/** Checks that a former master that still considers itself a master decides nothing. */
async function watchedForScripts(server: RedisServer, scene: LoadScene, when: string, run: () => Promise<unknown>) {
  const before = await scriptsOf(server)
  await run()
  const more = (await scriptsOf(server)) - before
  scene.note(`${when}: ${more} scripts run by the old master`)
  scene.expect(more === 0, `${when}: the old master is not asked`)
}

async function scriptsOf(server: RedisServer): Promise<number> {
  const told = (await server.info('cmdstat_evalsha')) ?? ''
  return Number(/calls=(\d+)/.exec(told)?.[1] ?? 0)
}

const kill: Fault = {
  name: 'sentinel-kill',
  title: 'Sentinel: the master is killed, and later restarts empty',
  run: (pace) =>
    onGroup(pace, { promised: notingLosses(FAILED_OVER) }, async (group, scene) => {
      const before = await group.master()
      await before.kill()
      await elected(group, before, scene)
      await sleep(1_000)
      // It considers itself a master until a sentinel finds it.
      await before.begin()
      await watchedForScripts(before, scene, 'begun again', () => sleep(pace.faultMs))
    }),
}

const pause: Fault = {
  name: 'sentinel-pause',
  title: 'Sentinel: the master is frozen until another is elected, and then thawed',
  isLong: true,
  run: (pace) =>
    onGroup(pace, { promised: notingLosses(FAILED_OVER) }, async (group, scene) => {
      const before = await group.master()
      before.freeze()
      await elected(group, before, scene)
      await sleep(1_000)
      before.thaw()
      // It now runs the commands that it had not read before the freeze, and nobody reads the
      // results. Any later command would be a decision.
      await sleep(200)
      const start = performance.now()
      await watchedForScripts(before, scene, 'thawed', () => sleep(pace.faultMs))
      await until('the old master follows', async () => (await before.command<[string]>('ROLE'))[0] !== 'master')
      scene.note(`it took itself for a master for ${(performance.now() - start).toFixed()} ms at least`)
    }),
}

const handOver: Fault = {
  name: 'sentinel-failover',
  title: 'Sentinel: the master hands over on request (SENTINEL FAILOVER)',
  isLong: true,
  run: (pace) =>
    onGroup(pace, { promised: notingLosses({ ...FAILED_OVER, mustSee: [] }) }, async (group, scene) => {
      const before = await group.master()
      await group.sentinels[0]?.command('SENTINEL', 'FAILOVER', group.name)
      await elected(group, before, scene)
    }),
}

const gone: Fault = {
  name: 'sentinel-gone',
  title: 'Sentinel: all sentinels are killed while the master is healthy, and restart',
  isLong: true,
  run: (pace) =>
    onGroup(pace, { timeoutMs: LONG_TIMEOUT_MS, promised: { errors: [] } }, async (group, scene) => {
      await Promise.all(group.sentinels.map((sentinel) => sentinel.kill()))
      await sleep(pace.faultMs)
      scene.expect(scene.store.status().state === 'up', 'the store is up without sentinels')
      await Promise.all(group.sentinels.map((sentinel) => sentinel.begin()))
      scene.healthy()
    }),
}

const most: Fault = {
  name: 'sentinel-minority',
  title:
    'Sentinel: the master and one sentinel are killed, and another sentinel is frozen: too few are left for an election',
  isLong: true,
  run: (pace) =>
    onGroup(pace, { promised: notingLosses(FAILED_OVER) }, async (group, scene) => {
      const [first, second] = group.sentinels as [RedisServer, RedisServer]
      first.freeze()
      await second.kill()
      const before = await group.master()
      await before.kill()
      await sleep(pace.faultMs)
      scene.expect(scene.store.status().state === 'down', 'the store is known to be down')
      first.thaw()
      await second.begin()
      await elected(group, before, scene)
    }),
}

export const SENTINEL_FAULTS: readonly Fault[] = [kill, pause, handOver, gone, most]
