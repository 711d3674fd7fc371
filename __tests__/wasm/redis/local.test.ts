/** Cached refusals and leases over a client: as over the native store, whose tests have the details. */
import { fixedWindow, RateLimiter, RedisStore } from '../../../ts/wasm/index.js'
import { ioredis, openedServer } from './stores.js'

const opened = openedServer()

test('a refused key is refused without a command', async () => {
  const client = ioredis(opened.server.port)
  let commands = 0
  const store = RedisStore.from(([name = '', ...args]: string[]) => {
    commands++
    return client.call(name, ...args)
  })
  const options = { store, prefix: 'local', local: { refusals: '10s' } } as const
  const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1h' }), options)
  await limiter.take('a')
  expect(await limiter.take('a')).toMatchObject({ status: 'refused', source: 'store' })
  const before = commands
  expect(await limiter.take('a')).toMatchObject({ status: 'refused', source: 'cache' })
  expect(commands).toBe(before)
  await limiter.reset('a')
  expect(await limiter.take('a')).toMatchObject({ allowed: true, source: 'store' })
  await store.close()
  client.disconnect()
})

test('calls on a hot key are decided without a command, and what is left goes back', async () => {
  const client = ioredis(opened.server.port)
  let commands = 0
  const store = RedisStore.from(([name = '', ...args]: string[]) => {
    commands++
    return client.call(name, ...args)
  })
  const policy = fixedWindow({ limit: 100_000, window: '1h' })
  const limiter = new RateLimiter(policy, { store, prefix: 'leased', local: { lease: '1m' } })
  let leased = 0
  for (let calls = 0; calls < 2_000; calls++) {
    leased += (await limiter.take('a')).source === 'lease' ? 1 : 0
  }
  expect(leased).toBeGreaterThan(1_800)
  expect(commands).toBeLessThan(300)
  await limiter.close()
  const plain = new RateLimiter(policy, { store, prefix: 'leased' })
  expect((await plain.peek('a')).remaining).toBe(98_000)
  await store.close()
  client.disconnect()
})
