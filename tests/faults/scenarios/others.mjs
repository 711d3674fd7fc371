/** Faults of the script cache, the memory and the callers. */
import { setTimeout as sleep } from 'node:timers/promises'
import { now } from '../harness/clock.mjs'
import { LIMIT, scene, underLoad, useUp } from '../harness/scene.mjs'

/** @type {import('./all.mjs').Scenario} */
export const thousandAtOnce = {
  name: '1000-at-once',
  title: '1,000 calls at once',
  run: (contender) =>
    scene(contender, {}, async ({ callers }) => {
      await Promise.all(callers.map((caller) => caller.ask('calls', { key: 'busy', count: 500, isParallel: true })))
      // A limit that is used up must not come back.
      await callers[0].ask('calls', { key: 'busy', count: 5 })
    }),
}

/** @type {import('./all.mjs').Scenario} */
export const refusedCost = {
  name: 'refused-cost',
  title: 'a refused call of 5 units, with 2 units left',
  needs: 'cost',
  run: (contender) =>
    scene(contender, { limit: 10 }, async ({ callers: [first, second] }) => {
      await first.ask('calls', { key: 'costly', cost: 8 })
      await second.ask('calls', { key: 'costly', cost: 5 })
      await first.ask('calls', { key: 'costly', cost: 2 })
    }),
}

/** @type {import('./all.mjs').Scenario} */
export const scriptFlush = {
  name: 'script-flush',
  title: '`SCRIPT FLUSH` every 50 ms',
  run: (contender) =>
    scene(contender, {}, (here) =>
      underLoad(here, async () => {
        for (let flushes = 0; flushes < 30; flushes++) {
          await here.server.command('SCRIPT', 'FLUSH')
          await sleep(50)
        }
      }),
    ),
}

/** Fills memory with values of a kilobyte, in scripts of a megabyte: between them Redis evicts. */
const FILL = "for i = 1, 1000 do redis.call('SET', 'other:' .. ARGV[1] .. ':' .. i, string.rep('x', 1000)) end"

/** @type {import('./all.mjs').Scenario} */
export const evictions = {
  name: 'evictions',
  title: 'Redis evicts keys (`allkeys-lru`)',
  run: (contender) =>
    scene(contender, { config: ['maxmemory 8mb', 'maxmemory-policy allkeys-lru'] }, async ({ server, callers }) => {
      await useUp(callers)
      await callers[0].ask('calls', { key: 'open', count: 50 })
      // Redis compares uses by the second.
      await sleep(2_000)
      for (let part = 0; part < 30; part++) {
        await server.command('EVAL', FILL, 0, part)
      }
      await Promise.all(callers.map((caller) => caller.ask('calls', { key: 'tight', count: LIMIT })))
      return { drains: ['open'] }
    }),
}

/** @type {import('./all.mjs').Scenario} */
export const processKilled = {
  name: 'process-killed',
  title: 'a process is killed while it holds work',
  needs: 'hold',
  run(contender) {
    const hold = { limit: 3, ttlMs: 2_000 }
    return scene(contender, { hold }, async ({ callers: [survivor, victim] }) => {
      let beyond = -hold.limit
      for (let asked = 0; asked <= hold.limit; asked++) {
        if ((await victim.ask('hold', { key: 'work' })).allowed) beyond++
      }
      await victim.end()
      const killedMs = now()
      let recoverySeconds = null
      while (recoverySeconds === null && now() < killedMs + 5 * hold.ttlMs) {
        if ((await survivor.ask('hold', { key: 'work' })).allowed) {
          recoverySeconds = Math.round((now() - killedMs) / 100) / 10
        }
        await sleep(50)
      }
      return { figures: { beyond: Math.max(0, beyond), refusedFree: Math.max(0, -beyond), recoverySeconds } }
    })
  },
}
