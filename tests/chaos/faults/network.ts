/** The server is healthy, and the network fails. */
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { TcpProxy } from '../../../__tests__/servers/tcp-proxy.js'
import type { Fault, Pace, Row } from '../fault.js'
import { LONG_TIMEOUT_MS, onStore, type Promised, type Scene, TIMEOUT_MS } from '../scene.js'

/** Runs a load through a proxy, and injects a fault into the proxy. */
async function throughProxy(
  pace: Pace,
  promised: Promised,
  inject: (proxy: TcpProxy, scene: Scene) => Promise<void>,
): Promise<Row> {
  await using server = await RedisServer.start()
  await using proxy = await TcpProxy.start(server)
  const timeoutMs = promised.errors.length > 0 ? TIMEOUT_MS : LONG_TIMEOUT_MS
  const setting = { store: () => ({ url: proxy.url }), timeoutMs, promised }
  return await onStore(pace, server, setting, (scene) => inject(proxy, scene))
}

const AWAY = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] as const

const halfOpen: Fault = {
  name: 'half-open',
  title: 'connections are accepted and never answered, old ones and new ones',
  run: (pace) =>
    throughProxy(pace, { errors: AWAY, mustSee: ['STORE_TIMEOUT'] }, async (proxy, scene) => {
      proxy.hold()
      await sleep(pace.faultMs)
      // New connections get no answer either.
      proxy.cut()
      await sleep(pace.faultMs)
      proxy.release()
      scene.healthy()
    }),
}

const oneWay: Fault = {
  name: 'one-way',
  title: 'commands arrive, but their answers do not',
  isLong: true,
  run: (pace) =>
    throughProxy(pace, { errors: AWAY, mustSee: ['STORE_TIMEOUT'] }, async (proxy, scene) => {
      proxy.hold('down')
      await sleep(pace.faultMs)
      proxy.release()
      scene.healthy()
    }),
}

const lostAnswers: Fault = {
  name: 'lost-answers',
  title: 'commands arrive, and connections break before the answers, repeatedly',
  run: (pace) =>
    throughProxy(pace, { errors: AWAY, mustSee: ['STORE_UNAVAILABLE'] }, async (proxy, scene) => {
      const end = performance.now() + pace.faultMs
      while (performance.now() < end) {
        proxy.hold('down')
        await sleep(20)
        proxy.cut()
        proxy.release()
        await sleep(100)
      }
      scene.healthy()
    }),
}

const refused: Fault = {
  name: 'refused',
  title: 'connections break, and new ones are refused',
  isLong: true,
  run: (pace) =>
    throughProxy(pace, { errors: AWAY, mustSee: ['STORE_UNAVAILABLE'] }, async (proxy, scene) => {
      await proxy.refuse()
      proxy.cut()
      await sleep(pace.faultMs)
      await proxy.accept()
      scene.healthy()
    }),
}

const latency: Fault = {
  name: 'latency',
  title: '50 ms of added latency',
  run: (pace) =>
    throughProxy(pace, { errors: [] }, async (proxy, scene) => {
      const before = scene.load.calls
      // Half of the latency in each direction.
      proxy.latencyMs = 25
      await sleep(pace.faultMs)
      const perSecond = ((scene.load.calls - before) * 1_000) / pace.faultMs
      proxy.latencyMs = 0
      scene.healthy()
      scene.note(`${perSecond.toFixed()} calls a second`)
      // 64 callers make fewer than twenty calls a second each.
      scene.expect(perSecond < 64 * 20 * 1.5, 'calls are slower')
      scene.expect(perSecond > 64 * 5, 'calls go on')
    }),
}

const slow: Fault = {
  name: 'slow',
  title: 'latency above the deadline',
  isLong: true,
  run: (pace) =>
    throughProxy(pace, { errors: AWAY, mustSee: ['STORE_TIMEOUT'] }, async (proxy, scene) => {
      proxy.latencyMs = 400
      await sleep(pace.faultMs)
      proxy.latencyMs = 0
      // Data in the proxy still arrives late.
      await sleep(800)
      scene.healthy()
    }),
}

/**
 * The address leads to another, empty server from now on, which is used.
 *
 * @param leave - Ends the service of the old server, whose connection stays.
 */
function moving(
  leave: (server: RedisServer, next: RedisServer) => Promise<unknown>,
  mustSee: Promised['errors'],
): Fault['run'] {
  const promised: Promised = { errors: AWAY, mustSee, losses: 1, isSetBack: true, losesCount: true }
  return async (pace) => {
    await using next = await RedisServer.start()
    return await throughProxy(pace, promised, async (proxy, { server, healthy, expect }) => {
      proxy.lead(next)
      await leave(server, next)
      healthy()
      await sleep(pace.faultMs)
      expect((await next.command<string[]>('KEYS', '*')).length > 0, 'the new server is used')
      // A frozen server could not be stopped.
      server.thaw()
    })
  }
}

const moved: Fault = {
  name: 'moved',
  title: 'the address leads to another server, and the old one, which becomes its replica, keeps the connection',
  run: moving((server, next) => server.command('REPLICAOF', '127.0.0.1', next.port), []),
}

const movedSilently: Fault = {
  name: 'moved-silently',
  title: 'the address leads to another server, and the old one no longer answers on its open connection',
  isLong: true,
  run: moving(async (server) => server.freeze(), ['STORE_TIMEOUT']),
}

export const NETWORK_FAULTS: readonly Fault[] = [
  halfOpen,
  oneWay,
  lostAnswers,
  refused,
  latency,
  slow,
  moved,
  movedSilently,
]
