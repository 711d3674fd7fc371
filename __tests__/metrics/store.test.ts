/** The metrics of a store while a real Redis comes and goes. */
import { gcra, MemoryStore, RateLimiter, RedisStore } from '../../ts/index.js'
import { instrumentStore } from '../../ts/metrics/index.js'
import { RedisServer } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import { until } from '../servers/until.js'
import { Collector } from './collect.js'

const SERIES = 'store=main'

async function shown(collector: Collector) {
  const all = await collector.collect()
  const of = (name: string) => all[name]?.series[SERIES]
  return { up: of('tollgate.store.up'), pending: of('tollgate.store.pending'), outages: of('tollgate.store.outages') }
}

test('a store that comes up, goes down, comes up again and is closed', async () => {
  await using server = await RedisServer.reserve()
  await using store = new RedisStore({ url: server.url, commandTimeout: 3_000 })
  const collector = new Collector()
  instrumentStore(store, { name: 'main', meter: collector.meter })
  const reached = (state: string) => until(`the store is ${state}`, async () => store.status().state === state)
  expect(await shown(collector)).toEqual({ up: 0, pending: 0, outages: 0 })
  await server.begin()
  await reached('up')
  expect(await shown(collector)).toEqual({ up: 1, pending: 0, outages: 0 })
  await server.kill()
  await reached('down')
  expect(await shown(collector)).toEqual({ up: 0, pending: 0, outages: 1 })
  await server.begin()
  await reached('up')
  // An outage between two collections is counted.
  server.freeze()
  await reached('down')
  server.thaw()
  await reached('up')
  expect(await shown(collector)).toEqual({ up: 1, pending: 0, outages: 2 })
  await store.close()
  expect(await shown(collector)).toEqual({ up: 0, pending: 0, outages: 2 })
  expect(await shown(collector)).toEqual({ up: 0, pending: 0, outages: 2 })
})

test('pending calls are shown while they wait', async () => {
  await using server = await RedisServer.start()
  await using proxy = await TcpProxy.start(server)
  await using store = new RedisStore({ url: proxy.url, commandTimeout: 60_000 })
  const limiter = new RateLimiter(gcra({ limit: 10, period: '1h' }), { store, prefix: 'api' })
  await limiter.ready()
  const collector = new Collector()
  instrumentStore(store, { name: 'main', meter: collector.meter })
  proxy.hold('down')
  const calls = [limiter.take('a'), limiter.take('b'), limiter.take('c')]
  expect(await shown(collector)).toEqual({ up: 1, pending: 3, outages: 0 })
  proxy.release()
  await Promise.all(calls)
  expect(await shown(collector)).toEqual({ up: 1, pending: 0, outages: 0 })
})

test('after shutdown the store is not observed, and shown as down', async () => {
  await using server = await RedisServer.start()
  await using store = new RedisStore({ url: server.url, commandTimeout: 200 })
  await until('it is up', async () => store.status().state === 'up')
  const collector = new Collector()
  const end = instrumentStore(store, { name: 'main', meter: collector.meter })
  expect(await shown(collector)).toEqual({ up: 1, pending: 0, outages: 0 })
  end()
  end()
  expect(await shown(collector)).toEqual({ up: 0, pending: 0, outages: 0 })
  const statusSpy = jest.spyOn(store, 'status')
  await shown(collector)
  expect(statusSpy).not.toHaveBeenCalled()
  statusSpy.mockRestore()
  await server.kill()
  await until('the store is down', async () => store.status().state === 'down')
  expect(await shown(collector)).toEqual({ up: 0, pending: 0, outages: 0 })
})

test('it accepts only stores that can be away, with a name', () => {
  expect(() => instrumentStore(new MemoryStore() as unknown as RedisStore, { name: 'main' })).toThrow(
    'store must be a RedisStore',
  )
  const { prototype } = RedisStore
  expect(() => instrumentStore(prototype, {} as { name: string })).toThrow('name must match')
})
