/** The server dies, freezes, or is replaced by another server. */
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { TcpProxy } from '../../../__tests__/servers/tcp-proxy.js'
import type { Fault } from '../fault.js'
import { LONG_TIMEOUT_MS, onStore, underLoad } from '../scene.js'

/** Codes of calls without a server, and of calls sent just before it went away. */
const AWAY = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] as const

const killEmpty: Fault = {
  name: 'kill-empty',
  title: 'kill -9; the server restarts empty',
  run: (pace) =>
    underLoad(pace, { promised: { errors: AWAY, losses: 1, losesCount: true } }, async (scene) => {
      await scene.server.kill()
      await sleep(pace.faultMs)
      await scene.server.begin()
      scene.healthy()
    }),
}

const killAof: Fault = {
  name: 'kill-aof',
  title: 'kill -9; the server restarts with its append-only file (appendfsync always)',
  run: (pace) => {
    const server = { config: ['appendonly yes', 'appendfsync always'] }
    return underLoad(pace, { server, promised: { errors: AWAY } }, async (scene) => {
      await scene.server.kill()
      await sleep(pace.faultMs)
      await scene.server.begin()
      scene.healthy()
    })
  },
}

const freeze: Fault = {
  name: 'freeze',
  title: 'SIGSTOP for 5 s (in short 1.5 s), then SIGCONT',
  run: (pace) =>
    underLoad(pace, { promised: { errors: AWAY } }, async (scene) => {
      scene.server.freeze()
      await sleep(pace.isShort ? 1_500 : 5_000)
      scene.server.thaw()
      scene.healthy()
    }),
}

const flicker: Fault = {
  name: 'flicker',
  title: 'frozen for 50 ms, repeatedly: shorter than any deadline',
  isLong: true,
  run: (pace) =>
    underLoad(pace, { timeoutMs: LONG_TIMEOUT_MS, promised: { errors: [] } }, async (scene) => {
      const end = performance.now() + pace.faultMs
      while (performance.now() < end) {
        scene.server.freeze()
        await sleep(50)
        scene.server.thaw()
        await sleep(50)
      }
      scene.healthy()
    }),
}

const replaced: Fault = {
  name: 'replaced',
  title: 'another, empty server at the same address',
  run: async (pace) => {
    await using server = await RedisServer.start()
    await using other = await RedisServer.start()
    await using proxy = await TcpProxy.start(server)
    const setting = {
      store: () => ({ url: proxy.url }),
      // Possibly no call is in flight when connections break.
      promised: { errors: AWAY, mustSee: [], losses: 1, losesCount: true },
    }
    return await onStore(pace, server, setting, async (scene) => {
      proxy.lead(other)
      proxy.cut()
      scene.healthy()
      await sleep(pace.faultMs)
      scene.expect((await other.command<number>('DBSIZE')) > 0, 'the other server is used')
    })
  },
}

const flushed: Fault = {
  name: 'flushed',
  title: 'all keys and scripts are deleted, and the connection stays: FLUSHALL, SCRIPT FLUSH',
  isLong: true,
  run: (pace) =>
    underLoad(
      pace,
      { timeoutMs: LONG_TIMEOUT_MS, promised: { errors: [], losses: 1, losesCount: true } },
      async (scene) => {
        await scene.server.command('SCRIPT', 'FLUSH')
        await scene.server.command('FLUSHALL')
        scene.healthy()
        await sleep(pace.faultMs)
      },
    ),
}

export const PROCESS_FAULTS: readonly Fault[] = [killEmpty, killAof, freeze, flicker, replaced, flushed]
