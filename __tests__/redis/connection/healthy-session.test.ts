/** What contradicts the health of a session, and which session takes over. */

import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { fixedWindow, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import { RedisServer } from '../../servers/redis-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { until } from '../../servers/until.js'
import { outcome, PATIENT_MS, recovery } from '../help.js'

const POLICY = fixedWindow({ limit: 1_000_000, window: '1d' })
/** An outage is noticed after this time. */
const TIMEOUT_MS = 300

/** Runs with a limiter on a store of its own. Collects the events of the store. */
async function withLimiter(
  options: RedisStoreOptions,
  run: (limiter: RateLimiter, store: RedisStore, events: string[]) => Promise<void>,
): Promise<void> {
  await using store = new RedisStore({ commandTimeout: TIMEOUT_MS, ...options })
  const events: string[] = []
  store.on('up', () => events.push('up'))
  store.on('down', ({ reason }) => events.push(`down ${reason}`))
  await run(new RateLimiter(POLICY, { store, prefix: 'healthy' }), store, events)
}

/** Starts a server that only this test uses. Its address reaches a client's `serve`. */
async function listening(serve: (client: Socket) => void): Promise<Server & AsyncDisposable> {
  const clients = new Set<Socket>()
  const server = createServer((client) => {
    clients.add(client)
    client.on('error', () => {})
    serve(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const stop = async () => {
    server.close()
    for (const client of clients) {
      client.destroy()
    }
  }
  return Object.assign(server, { [Symbol.asyncDispose]: stop })
}

function portOf(server: Server): number {
  return (server.address() as { port: number }).port
}

// promise: moved-address-is-followed
test('a master that is demoted while its address leads to the new master: the new one is used, and no call fails', async () => {
  await using old = await RedisServer.start()
  await using next = await RedisServer.start()
  await using proxy = await TcpProxy.start(old)
  await withLimiter({ url: proxy.url, commandTimeout: PATIENT_MS }, async (limiter, _, events) => {
    expect(await limiter.take('key')).toMatchObject({ remaining: POLICY.limit - 1 })
    proxy.lead(next)
    await old.command('REPLICAOF', '127.0.0.1', `${next.port}`)
    await limiter.take('key')
    const [written] = await next.command<string[]>('KEYS', '*{*')
    expect(written).toContain('key')
    expect(events).toEqual(['up'])
  })
})

test('a silent connection whose address leads to another server: that server is used', async () => {
  await using old = await RedisServer.start()
  await using next = await RedisServer.start()
  await using proxy = await TcpProxy.start(old)
  await withLimiter({ url: proxy.url }, async (limiter, store) => {
    await recovery(limiter, 'key')
    proxy.lead(next)
    old.freeze()
    await recovery(limiter, 'key')
    expect(store.status().state).toBe('up')
    expect(await next.command<string[]>('KEYS', '*{*')).toHaveLength(1)
  })
})

test('the login is requested again for a server with another one', async () => {
  await using old = await RedisServer.start()
  await using next = await RedisServer.start()
  await using proxy = await TcpProxy.start(old)
  await old.command('ACL', 'SETUSER', 'app', 'on', '>first', '~*', '+@all')
  await next.command('ACL', 'SETUSER', 'app', 'on', '>second', '~*', '+@all')
  let password = 'first'
  const credentials = () => ({ username: 'app', password })
  const options = { url: proxy.url, credentials, commandTimeout: PATIENT_MS }
  await withLimiter(options, async (limiter) => {
    await limiter.take('key')
    password = 'second'
    proxy.lead(next)
    await old.command('REPLICAOF', '127.0.0.1', '1')
    await limiter.take('key')
  })
})

test('the reason of an outage is the last one, and each new reason is notified', async () => {
  await using server = await RedisServer.reserve({ config: ['requirepass right'] })
  const url = `redis://:wrong@127.0.0.1:${server.port}`
  await withLimiter({ url }, async (_, store, events) => {
    const reason = (text: RegExp) => until(`${text}`, async () => text.test(store.status().reason ?? '') || undefined)
    await reason(/refused/i)
    const { since } = store.status()
    await server.begin('listening')
    await reason(/password/i)
    expect(store.status()).toMatchObject({ state: 'down', since })
    expect(events.filter((event) => /refused/i.test(event))).toHaveLength(1)
    expect(events.filter((event) => /password/i.test(event))).toHaveLength(1)
  })
})

test.each([
  ['a replica', ['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE'], /read-only replica/],
  ['a server without its master', ['MASTERDOWN'], ['REPLICAOF', 'NO', 'ONE'], /MASTERDOWN|master/i],
] as const)('%s is an outage with that reason', async (_, begin, end, reason) => {
  await using server = await RedisServer.start()
  await withLimiter({ url: server.url }, async (limiter, store) => {
    await recovery(limiter, 'key')
    if (begin[0] === 'MASTERDOWN') {
      await server.command('CONFIG', 'SET', 'replica-serve-stale-data', 'no')
      await server.command('REPLICAOF', '127.0.0.1', '1')
    } else {
      await server.command(...(begin as unknown as [string, ...string[]]))
    }
    await until('the store is down', async () => reason.test(store.status().reason ?? '') || undefined)
    await server.command(...(end as unknown as [string, ...string[]]))
    await recovery(limiter, 'key')
  })
})

test('while writes are held back the store stays down, and no further call is sent', async () => {
  await using server = await RedisServer.start()
  await withLimiter({ url: server.url, connectTimeout: TIMEOUT_MS }, async (limiter, store, events) => {
    await recovery(limiter, 'key')
    await server.command('CLIENT', 'PAUSE', '1000000', 'WRITE')
    await until('the store is down', async () => {
      await outcome(limiter.take('key'))
      return store.status().state === 'down'
    })
    // Each new connection of the store asks for this, and is answered.
    const dialed = async () => Number(/calls=(\d+)/.exec((await server.info('cmdstat_hello')) ?? '')?.[1] ?? 0)
    const before = await dialed()
    await until('the address was dialed three times', async () => {
      expect((await outcome(limiter.take('key'))).error).toMatchObject({ charged: false })
      return (await dialed()) >= before + 3 || undefined
    })
    expect(events.filter((event) => event === 'up')).toHaveLength(1)
    await server.command('CLIENT', 'UNPAUSE')
    await recovery(limiter, 'key')
  })
})

describe('a service that ends connections', () => {
  test.each([['CLIENT'], ['HELLO'], ['INFO'], ['CLIENT|HELLO|INFO']])('with %s is used without it', async (words) => {
    await using server = await RedisServer.start()
    let attempts = 0
    await using service = await listening((client) => {
      attempts++
      const target = connect(server.port, '127.0.0.1')
      target.on('error', () => {})
      client.on('data', (bytes) => {
        if (new RegExp(`\\r\\n(${words})\\r\\n`, 'i').test(bytes.toString('latin1'))) {
          client.destroy()
          target.destroy()
        } else {
          target.write(bytes)
        }
      })
      target.on('data', (bytes) => client.write(bytes))
      client.on('close', () => target.destroy())
      target.on('close', () => client.destroy())
    })
    await withLimiter({ url: `redis://127.0.0.1:${portOf(service)}` }, async (limiter) => {
      await recovery(limiter, 'key')
      const before = attempts
      await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      await until('it is used again', async () => {
        const { error } = await outcome(limiter.take('key'))
        return (error === undefined && attempts > before) || undefined
      })
    })
  })

  test('with any command is reported, with advice', async () => {
    await using service = await listening((client) => client.on('data', () => client.destroy()))
    await withLimiter({ url: `redis://127.0.0.1:${portOf(service)}` }, async (limiter, store) => {
      await until('the store is down', async () => store.status().state === 'down')
      expect(store.status().reason).toContain('requires TLS, or is no Redis server')
      expect((await outcome(limiter.take('key'))).error?.message).toContain('requires TLS')
    })
  })
})

test('a stale sentinel that answers first does not decide against the other two', async () => {
  await using stale = await RedisServer.start()
  await using master = await RedisServer.start()
  const sentinel = ({ port }: RedisServer, latencyMs: number) =>
    listening((client) =>
      client.on('data', (bytes) => {
        const words = ['127.0.0.1', `${port}`].map((word) => `$${word.length}\r\n${word}\r\n`)
        // A client introduces itself first.
        for (const [, command] of bytes.toString('latin1').matchAll(/\r\n(CLIENT|SENTINEL)\r\n/g)) {
          const reply = command === 'SENTINEL' ? `*2\r\n${words.join('')}` : '+OK\r\n'
          setTimeout(() => client.write(reply), latencyMs)
        }
      }),
    )
  await using first = await sentinel(stale, 0)
  await using second = await sentinel(master, 200)
  await using third = await sentinel(master, 200)
  const nodes = [first, second, third].map((server) => `127.0.0.1:${portOf(server)}`)
  const options = { sentinel: { nodes, name: 'main' }, connectTimeout: PATIENT_MS, commandTimeout: PATIENT_MS }
  await withLimiter(options, async (limiter, store) => {
    await limiter.take('key')
    expect(store.status().address).toBe(`127.0.0.1:${master.port}`)
    expect(await stale.command('KEYS', '*')).toEqual([])
  })
})
