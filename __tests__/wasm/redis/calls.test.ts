/**
 * Script calls through a client: one for all calls of a tick, in text, and with each unit charged
 * once.
 */
import * as native from '../../../ts/index.js'
import { fixedWindow, gcra, RateLimiter, RedisStore, type Reservation, slidingLog } from '../../../ts/wasm/index.js'
import { rejectionOf } from '../../failure.js'
import { CLIENT_STORES, type ClientStore, ioredis, openedServer } from './stores.js'

const opened = openedServer()

/** The number of times that the server has run a command. */
async function calls(command: string): Promise<number> {
  return Number(/calls=(\d+)/.exec((await opened.server.info(`cmdstat_${command}`)) ?? '')?.[1] ?? 0)
}

describe.each(Object.keys(CLIENT_STORES))('%s', (name) => {
  let clientStore: ClientStore
  beforeAll(async () => {
    clientStore = await (CLIENT_STORES[name] as (typeof CLIENT_STORES)[string])(opened.server.port, {
      commandTimeout: 10_000,
    })
  })
  afterAll(async () => {
    await clientStore.store.close()
    await clientStore.close()
  })
  const prefix = (of: string) => `${of}-${name.replaceAll(/\W/g, '')}`

  // promise: one-round-trip
  test('the calls of all limiters in one tick are one script call', async () => {
    const { store } = clientStore
    const limiters = [
      new RateLimiter(gcra({ limit: 100, period: '1h' }), { store, prefix: prefix('rate') }),
      new RateLimiter(slidingLog({ limit: 100, window: '1h' }), { store, prefix: prefix('log') }),
    ]
    // From here on the script is loaded, and the policies are registered.
    await Promise.all(limiters.map((limiter) => limiter.peek('registered')))
    await Promise.all(limiters.map((limiter) => limiter.peek('registered')))
    const before = [await calls('evalsha'), await calls('eval')]
    const keys = Array.from({ length: 15 }, (_, index) => `key ${index % 5}`)
    const decisions = await Promise.all(limiters.flatMap((limiter) => keys.map((key) => limiter.take(key))))
    expect(decisions.map(({ remaining }) => remaining)).toEqual(
      keys.concat(keys).map((_, at) => 99 - Math.floor((at % 15) / 5)),
    )
    expect([await calls('evalsha'), await calls('eval')]).toEqual([(before[0] as number) + 1, before[1]])
  })

  test('a server that lost the script receives it once, and each unit is charged once', async () => {
    const limiter = new RateLimiter(fixedWindow({ limit: 1_000, window: '1d' }), {
      store: clientStore.store,
      prefix: prefix('forgotten'),
    })
    await limiter.peek('registered')
    await limiter.peek('registered')
    for (let round = 0; round < 5; round++) {
      await opened.server.command('SCRIPT', 'FLUSH')
      const before = [await calls('evalsha'), await calls('eval')]
      await Promise.all(['a', 'a', 'b'].map((key) => limiter.take(key)))
      expect([await calls('evalsha'), await calls('eval')]).toEqual(before.map((count) => count + 1))
    }
    expect((await limiter.peek('a', 0)).remaining).toBe(990)
    expect((await limiter.peek('b', 0)).remaining).toBe(995)
  })

  test('any key is the same key to the native store', async () => {
    const policy = gcra({ limit: 10, period: '1h' })
    const limiter = new RateLimiter(policy, { store: clientStore.store, prefix: prefix('keys') })
    await using store = new native.RedisStore(opened.server.url)
    const other = new native.RateLimiter(policy, { store, prefix: prefix('keys') })
    for (const key of ['a', 'ключ', '🔑', '\0', '\x7f\u0080\u00ff', '{tag}', '"\\\r\n', ' ', 'x'.repeat(1_024)]) {
      await limiter.take(key, 3)
      await other.take(key, 4)
      expect((await limiter.peek(key)).remaining).toBe(3)
    }
    for (const key of ['', '\ud800', 'x'.repeat(1_025)]) {
      const { code, message } = await rejectionOf(other.take(key))
      expect(await rejectionOf(limiter.take(key))).toMatchObject({ code, message })
    }
  })

  test('a thousand keys at once come back in order', async () => {
    const limiter = new RateLimiter(fixedWindow({ limit: 5_000, window: '1d' }), {
      store: clientStore.store,
      prefix: prefix('many'),
    })
    const costs = Array.from({ length: 1_500 }, (_, index) => index + 1)
    const decisions = await Promise.all(costs.map((cost) => limiter.take(`key ${cost}`, cost)))
    expect(decisions.map(({ remaining }) => remaining)).toEqual(costs.map((cost) => 5_000 - cost))
  })
})

test('a native limiter and one of a client ban keys together', async () => {
  const client = ioredis(opened.server.port)
  const store = RedisStore.from(client)
  await using nativeStore = new native.RedisStore(opened.server.url)
  const options = { prefix: 'bans', ban: { after: 4, period: '1h', for: ['1h', '2h'] } } as const
  const policy = fixedWindow({ limit: 1, window: '10m' })
  const limiters = [
    new RateLimiter(policy, { ...options, store }),
    new native.RateLimiter(policy, { ...options, store: nativeStore }),
  ] as const
  const seen: [string, unknown][] = []
  for (let call = 0; call < 6; call++) {
    const decision = await limiters[call % 2 === 0 ? 0 : 1].take('a')
    seen.push([decision.status, decision.status === 'blocked' ? decision.ban?.step : undefined])
  }
  const refused = ['refused', undefined]
  expect(seen).toEqual([['allowed-last', undefined], refused, refused, refused, ['blocked', 1], ['blocked', 1]])
  await store.close()
})

test('all arguments are text', async () => {
  const client = ioredis(opened.server.port)
  const sent: string[][] = []
  const store = RedisStore.from((command) => {
    sent.push(command)
    const [name = '', ...args] = JSON.parse(JSON.stringify(command)) as string[]
    return client.call(name, ...args).then((reply) => JSON.parse(JSON.stringify(reply)))
  })
  const limiter = new RateLimiter(gcra({ limit: 86_400_000, period: '1d' }), { store, prefix: 'text' })
  await limiter.take('a', 12_345_678)
  const reservation = await limiter.reserve('a', 200)
  expect(await (reservation as Extract<Reservation, { readonly allowed: true }>).commit(100)).toMatchObject({
    settled: true,
  })
  await limiter.override('a', { limit: 255 }, { ttl: '1h' })
  expect(await limiter.peek('a')).toMatchObject({ limit: 255 })
  expect(sent.flat().every((word) => typeof word === 'string' && Buffer.from(word).toString() === word)).toBe(true)
  await store.close()
  client.disconnect()
})

test('callers that call again share a request through a client that makes a request for each script', async () => {
  const open = CLIENT_STORES['@upstash/redis'] as (typeof CLIENT_STORES)[string]
  const { store, close } = await open(opened.server.port, { commandTimeout: 10_000 })
  const limiter = new RateLimiter(gcra({ limit: 1_000, period: '1h' }), { store, prefix: 'again' })
  await limiter.ready()
  const before = await calls('evalsha')
  const caller = async (name: string) => {
    for (let call = 0; call < 20; call++) {
      await limiter.take(name)
    }
  }
  await Promise.all(Array.from({ length: 8 }, (_, number) => caller(`caller ${number}`)))
  expect((await calls('evalsha')) - before).toBe(20)
  await limiter.close()
  await store.close()
  await close()
})
