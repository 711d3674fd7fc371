/** The server is reachable, but does not run scripts: forgotten, busy, full, loading, forbidden. */
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { until } from '../../../__tests__/servers/until.js'
import type { Fault, Pace } from '../fault.js'
import { LONG_TIMEOUT_MS, underLoad } from '../scene.js'

/** Repeats an action while the fault lasts. */
async function every(ms: number, pace: Pace, run: () => Promise<unknown>): Promise<number> {
  const end = performance.now() + pace.faultMs
  let times = 0
  for (; performance.now() < end; times++) {
    await run()
    await sleep(ms)
  }
  return times
}

/** How often the server has answered with an error of this name. */
async function told(server: RedisServer, error: string): Promise<number> {
  return Number(/count=(\d+)/.exec((await server.info(`errorstat_${error}`)) ?? '')?.[1] ?? 0)
}

const scriptFlush: Fault = {
  name: 'script-flush',
  title: 'SCRIPT FLUSH every 100 ms',
  run: (pace) =>
    underLoad(pace, { timeoutMs: LONG_TIMEOUT_MS, promised: { errors: [] } }, async (scene) => {
      const { server } = scene
      const times = await every(100, pace, () => server.command('SCRIPT', 'FLUSH'))
      scene.healthy()
      const unknown = await told(server, 'NOSCRIPT')
      scene.note(`${times} flushes, ${unknown} NOSCRIPT`)
      scene.expect(unknown > 0, 'NOSCRIPT is seen')
    }),
}

const clientKill: Fault = {
  name: 'client-kill',
  title: 'CLIENT KILL of all connections every 200 ms',
  run: (pace) =>
    // A kill has no effect on callers if all calls of the connection have been answered.
    underLoad(
      pace,
      { timeoutMs: LONG_TIMEOUT_MS, promised: { errors: ['STORE_UNAVAILABLE'], mustSee: [] } },
      async (scene) => {
        let killed = 0
        const times = await every(200, pace, async () => {
          killed += await scene.server.command<number>('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        })
        scene.healthy()
        scene.note(`${times} times, ${killed} connections`)
        scene.expect(killed >= times, 'each time a connection is killed')
      },
    ),
}

const busy: Fault = {
  name: 'busy',
  title: 'an endless script (BUSY), until it is killed',
  run: (pace) =>
    underLoad(
      pace,
      // The name of the option that all versions accept.
      { server: { config: ['lua-time-limit 50'] }, promised: { errors: ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] } },
      async (scene) => {
        const endless = scene.server.command('EVAL', 'while true do end', 0).catch(() => {})
        await sleep(pace.faultMs)
        await scene.server.command('SCRIPT', 'KILL')
        scene.healthy()
        await endless
        scene.expect((await told(scene.server, 'BUSY')) > 0, 'BUSY is seen')
      },
    ),
}

const outOfMemory: Fault = {
  name: 'oom',
  title: 'maxmemory reached under noeviction (OOM)',
  run: (pace) =>
    underLoad(pace, { timeoutMs: LONG_TIMEOUT_MS, promised: { errors: ['STORE_ERROR'] } }, async (scene) => {
      await scene.server.command('CONFIG', 'SET', 'maxmemory', 1)
      await sleep(pace.faultMs)
      await scene.server.command('CONFIG', 'SET', 'maxmemory', 0)
      scene.healthy()
      scene.expect((await told(scene.server, 'OOM')) > 0, 'OOM is seen')
    }),
}

const evicting: Fault = {
  name: 'evicting',
  title: 'maxmemory reached under allkeys-random: keys vanish',
  run: (pace) => {
    const evicted: string[] = []
    // A key's name starts with the prefix of its limiter, and has the user's key in braces.
    const losses = (limiter: string, key: string) =>
      evicted.filter((name) => name.startsWith(`${limiter}:`) && name.includes(`{${key}}`)).length
    const promised = { errors: [], losses, losesCount: true }
    return underLoad(
      pace,
      { server: { config: ['notify-keyspace-events Ee'] }, timeoutMs: LONG_TIMEOUT_MS, promised },
      async (scene) => {
        const { server } = scene
        const unsubscribe = await server.subscribe('__keyevent@0__:evicted', (name) => evicted.push(name))
        await server.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random')
        // Memory for the existing keys, and little more.
        const used = Number(await server.info('used_memory'))
        await server.command('CONFIG', 'SET', 'maxmemory', used + 500_000)
        let round = 0
        await every(20, pace, () => server.command('SET', `filler-${round++}`, 'x'.repeat(50_000)))
        await server.command('CONFIG', 'SET', 'maxmemory', 0)
        scene.healthy()
        unsubscribe()
        const [own, all] = [evicted.filter((name) => !name.startsWith('filler-')).length, evicted.length]
        scene.note(`${all} keys evicted, ${own} of them the limiters'`)
        scene.expect(own > 0, "keys of the limiters' are evicted")
      },
    )
  },
}

const loading: Fault = {
  name: 'loading',
  title: 'kill -9; the server restarts, and loads data for seconds (LOADING)',
  run: (pace) => {
    const config = [
      'appendonly yes',
      'appendfsync always',
      // A rewrite would turn the file into a dump, which loads faster.
      'auto-aof-rewrite-percentage 0',
      'aof-use-rdb-preamble no',
      // The delay per command, in microseconds. The server answers commands in between.
      'key-load-delay 500',
      'loading-process-events-interval-bytes 1024',
    ]
    const promised = { errors: ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] as const }
    return underLoad(pace, { server: { config }, promised }, async (scene) => {
      const { server } = scene
      // Each key takes half a millisecond to load.
      const commands = pace.isShort ? 2_000 : 6_000
      await server.command('EVAL', `for i = 1, ${commands} do redis.call('SET', 'filler-' .. i, i) end`, 0)
      await server.kill()
      await server.begin('listening')
      const start = performance.now()
      while (!(await isLoaded(server))) {
        await sleep(20)
      }
      scene.healthy()
      const ms = performance.now() - start
      scene.note(`loaded for ${(ms / 1_000).toFixed(1)} s`)
      scene.expect(ms > 300, 'it takes a while to load')
    })
  },
}

async function isLoaded(server: RedisServer): Promise<boolean> {
  return server.command('PING').then(
    () => true,
    () => false,
  )
}

const readOnly: Fault = {
  name: 'read-only',
  title: 'the server becomes a replica without a master (READONLY, MASTERDOWN), and a master again',
  isLong: true,
  run: (pace) =>
    underLoad(pace, { promised: { errors: ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] } }, async (scene) => {
      await scene.server.command('REPLICAOF', '127.0.0.1', 1)
      await sleep(pace.faultMs)
      await scene.server.command('REPLICAOF', 'NO', 'ONE')
      scene.healthy()
    }),
}

const writesHeld: Fault = {
  name: 'writes-held',
  title: 'writes are held back, and other commands are answered (CLIENT PAUSE WRITE), as in a managed failover',
  isLong: true,
  run: (pace) =>
    underLoad(pace, { promised: { errors: ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] } }, async (scene) => {
      await scene.server.command('CLIENT', 'PAUSE', 3_600_000, 'WRITE')
      await sleep(pace.faultMs)
      await scene.server.command('CLIENT', 'UNPAUSE')
      scene.healthy()
    }),
}

const USER = { username: 'limiter', password: 'known-to-both' }

const noPermission: Fault = {
  name: 'no-permission',
  title: 'the ACL forbids scripts (NOPERM), and later allows them again',
  run: (pace) =>
    underLoad(
      pace,
      {
        server: { config: [`user ${USER.username} on ~* &* +@all >${USER.password}`] },
        store: ({ port }) => ({ url: `redis://${USER.username}:${USER.password}@127.0.0.1:${port}` }),
        timeoutMs: LONG_TIMEOUT_MS,
        promised: { errors: ['STORE_ERROR'] },
      },
      async (scene) => {
        await scene.server.command('ACL', 'SETUSER', USER.username, '-@scripting')
        await sleep(pace.faultMs)
        await scene.server.command('ACL', 'SETUSER', USER.username, '+@all')
        scene.healthy()
        scene.expect((await told(scene.server, 'NOPERM')) > 0, 'NOPERM is seen')
      },
    ),
}

const noReplicas: Fault = {
  name: 'no-replicas',
  title: 'the server requires a replica that it does not have (NOREPLICAS), and later requires none',
  isLong: true,
  run: (pace) =>
    underLoad(pace, { promised: { errors: ['STORE_ERROR'] } }, async (scene) => {
      await scene.server.command('CONFIG', 'SET', 'min-replicas-to-write', 1)
      await sleep(pace.faultMs)
      await scene.server.command('CONFIG', 'SET', 'min-replicas-to-write', 0)
      scene.healthy()
      scene.expect((await told(scene.server, 'NOREPLICAS')) > 0, 'NOREPLICAS is seen')
    }),
}

const misconf: Fault = {
  name: 'misconf',
  title: 'the last dump could not be written (MISCONF), until writes are allowed despite that',
  isLong: true,
  run: (pace) => {
    const server = { config: ['save 3600 1', 'dbfilename taken.rdb'] }
    return underLoad(pace, { server, promised: { errors: ['STORE_ERROR'] } }, async (scene) => {
      // A folder has the name of the dump file.
      await mkdir(join(dirname(scene.server.socketPath), 'taken.rdb'))
      await scene.server.command('BGSAVE')
      await until('the dump has failed', async () => {
        return (await scene.server.info('rdb_last_bgsave_status')) === 'err' || undefined
      })
      await sleep(pace.faultMs)
      await scene.server.command('CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'no')
      scene.healthy()
      scene.expect((await told(scene.server, 'MISCONF')) > 0, 'MISCONF is seen')
    })
  },
}

export const SERVICE_FAULTS: readonly Fault[] = [
  scriptFlush,
  clientKill,
  busy,
  outOfMemory,
  evicting,
  loading,
  readOnly,
  writesHeld,
  noPermission,
  noReplicas,
  misconf,
]
