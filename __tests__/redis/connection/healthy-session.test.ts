/** What contradicts the health of a session, and which session takes over. */

import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { fixedWindow, RateLimiter, RedisStore, type RedisStoreOptions } from '../../../ts/index.js'
import { freePort } from '../../servers/ports.js'
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

/** Answers each command of a client with a line. */
function answerAll(client: Socket, line: () => string, onCommands?: (text: string) => void): void {
  client.on('data', (bytes) => {
    const text = bytes.toString('latin1')
    client.write(`${line()}\r\n`.repeat(text.match(/\*\d+\r\n/g)?.length ?? 0))
    onCommands?.(text)
  })
}

/** A sentinel that reports this port of the master. `latencyMs` delays its answer to a query, by the query's number. */
function sentinel(port: number, latencyMs: (query: number) => number): Promise<Server & AsyncDisposable> {
  let queries = 0
  return listening((client) =>
    client.on('data', (bytes) => {
      const words = ['127.0.0.1', `${port}`].map((word) => `$${word.length}\r\n${word}\r\n`)
      // A client introduces itself first.
      for (const [, command] of bytes.toString('latin1').matchAll(/\r\n(CLIENT|SENTINEL)\r\n/g)) {
        const isQuery = command === 'SENTINEL'
        const reply = isQuery ? `*2\r\n${words.join('')}` : '+OK\r\n'
        setTimeout(() => client.write(reply), isQuery ? latencyMs(queries++) : 0)
      }
    }),
  )
}

function nodesOf(sentinels: readonly Server[]): string[] {
  return sentinels.map((server) => `127.0.0.1:${portOf(server)}`)
}

// promise: moved-address-is-followed
test.each([
  ['', []],
  [' and does not report its role', ['rename-command HELLO ""']],
])(
  'a master that is demoted%s while its address leads to the new master: the new one is used, and no call fails',
  async (_, config) => {
    await using old = await RedisServer.start({ config })
    await using next = await RedisServer.start({ config })
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
  },
)

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

const PROMOTE = ['REPLICAOF', 'NO', 'ONE']

test.each([
  ['a replica', [], ['REPLICAOF', '127.0.0.1', '1'], PROMOTE, /read-only replica/],
  [
    'a replica that does not report its role',
    ['rename-command HELLO ""'],
    ['REPLICAOF', '127.0.0.1', '1'],
    PROMOTE,
    /READONLY/,
  ],
  ['a server without its master', [], ['MASTERDOWN'], PROMOTE, /MASTERDOWN|master/i],
])('%s is an outage with that reason', async (_, config, begin, end, reason) => {
  await using server = await RedisServer.start({ config })
  await withLimiter({ url: server.url }, async (limiter, store) => {
    await recovery(limiter, 'key')
    if (begin[0] === 'MASTERDOWN') {
      await server.command('CONFIG', 'SET', 'replica-serve-stale-data', 'no')
      await server.command('REPLICAOF', '127.0.0.1', '1')
    } else {
      await server.command(...(begin as [string, ...string[]]))
    }
    await until('the store is down', async () => {
      // A server that does not report its role shows it to calls.
      await outcome(limiter.take('key'))
      return reason.test(store.status().reason ?? '') || undefined
    })
    await server.command(...(end as [string, ...string[]]))
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
  test.each([['CLIENT'], ['HELLO'], ['INFO'], ['CLUSTER'], ['CLIENT|HELLO|INFO']])(
    'with %s is used without it',
    async (words) => {
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
    },
  )

  test('with any command is reported, with advice', async () => {
    await using service = await listening((client) => client.on('data', () => client.destroy()))
    await withLimiter({ url: `redis://127.0.0.1:${portOf(service)}` }, async (limiter, store) => {
      await until('the store is down', async () => store.status().state === 'down')
      expect(store.status().reason).toContain('requires TLS, or is no Redis server')
      expect((await outcome(limiter.take('key'))).error?.message).toContain('requires TLS')
    })
  })
})

test('a connection that ends right after its checks is followed by pauses', async () => {
  const starts: number[] = []
  await using service = await listening((client) => {
    starts.push(performance.now())
    answerAll(
      client,
      () => '+OK',
      (text) => /CLUSTER/.test(text) && client.end(),
    )
  })
  await withLimiter({ url: `redis://127.0.0.1:${portOf(service)}` }, async () => {
    await until('ten connections', async () => starts.length >= 10)
    const [first = 0] = starts
    // The pauses double from 25 ms to 200 ms. Timers are never early.
    expect((starts[9] ?? 0) - first).toBeGreaterThan(1_000)
  })
})

describe('NOAUTH in answer to a call', () => {
  test('is a reason to log in again, and the call waits', async () => {
    await using server = await RedisServer.start()
    const refusing = new Set<() => void>()
    await using service = await listening((client) => {
      const target = connect(server.port, '127.0.0.1')
      target.on('error', () => {}).on('data', (bytes) => client.write(bytes))
      client.on('data', (bytes) => target.write(bytes)).on('close', () => target.destroy())
      refusing.add(() => {
        client.removeAllListeners('data')
        answerAll(client, () => '-NOAUTH Authentication required.')
      })
    })
    const options = { url: `redis://127.0.0.1:${portOf(service)}`, commandTimeout: PATIENT_MS }
    await withLimiter(options, async (limiter, _, events) => {
      await limiter.take('key')
      for (const refuse of refusing) {
        refuse()
      }
      expect(await limiter.take('key')).toMatchObject({ remaining: POLICY.limit - 2 })
      expect(events).toEqual(['up'])
    })
  })

  test('is the reason of the outage if it stays', async () => {
    let answer = '+OK'
    await using service = await listening((client) => answerAll(client, () => answer))
    await withLimiter({ url: `redis://127.0.0.1:${portOf(service)}` }, async (limiter, store) => {
      await until('the store is up', async () => store.status().state === 'up')
      answer = '-NOAUTH Authentication required.'
      const { error } = await outcome(limiter.take('key'))
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: false })
      expect(error?.message).toContain('NOAUTH')
      await until('the store is down', async () => store.status().state === 'down')
      expect(store.status().reason).toContain('NOAUTH')
    })
  })
})

test.each([['DENIED Redis is running in protected mode'], ['ERR max number of clients reached']])(
  'a server that refuses its clients with %s is an outage with that reason',
  async (why) => {
    await using service = await listening((client) => client.end(`-${why}\r\n`))
    await withLimiter({ url: `redis://127.0.0.1:${portOf(service)}` }, async (limiter, store, events) => {
      await until('the store is down', async () => {
        await outcome(limiter.take('key'))
        return store.status().state === 'down'
      })
      expect(events).toEqual([`down 127.0.0.1:${portOf(service)}: ${why}`])
    })
  },
)

test('a server with too many clients is an outage with that reason, until it has space', async () => {
  await using server = await RedisServer.start({ config: ['maxclients 2'] })
  await using proxy = await TcpProxy.start(server)
  const others = [connect(server.port), connect(server.port)]
  try {
    await Promise.all(others.map((socket) => once(socket, 'connect')))
    await withLimiter({ url: proxy.url }, async (limiter, store) => {
      await until('the reason', async () => /max number of clients/.test(store.status().reason ?? ''))
      for (const socket of others) {
        socket.destroy()
      }
      await recovery(limiter, 'key')
    })
  } finally {
    for (const socket of others) {
      socket.destroy()
    }
  }
})

test('a stale sentinel that answers first does not decide against the other two', async () => {
  await using stale = await RedisServer.start()
  await using master = await RedisServer.start()
  await using first = await sentinel(stale.port, () => 0)
  await using second = await sentinel(master.port, () => 200)
  await using third = await sentinel(master.port, () => 200)
  const nodes = nodesOf([first, second, third])
  const options = { sentinel: { nodes, name: 'main' }, connectTimeout: PATIENT_MS, commandTimeout: PATIENT_MS }
  await withLimiter(options, async (limiter, store) => {
    await limiter.take('key')
    expect(store.status().address).toBe(`127.0.0.1:${master.port}`)
    expect(await stale.command('KEYS', '*')).toEqual([])
  })
})

test('the master of a stale sentinel is not used if that of the others cannot be reached', async () => {
  await using stale = await RedisServer.start()
  const absent = await freePort()
  await using first = await sentinel(stale.port, () => 0)
  await using second = await sentinel(absent, () => 20)
  await using third = await sentinel(absent, () => 20)
  await withLimiter({ sentinel: { nodes: nodesOf([first, second, third]), name: 'main' } }, async (limiter, store) => {
    await until('the store is down', async () => {
      expect((await outcome(limiter.take('key'))).error).toMatchObject({ charged: false })
      return store.status().state === 'down'
    })
    expect(store.status().reason).toContain(`127.0.0.1:${absent}`)
    expect(await stale.command('KEYS', '*')).toEqual([])
  })
})

test('sentinels that disagree do not make the store leave its master', async () => {
  await using one = await RedisServer.start()
  await using other = await RedisServer.start()
  let queries = 0
  // Each answers first twice in a row: to the query that finds another master, and to that of the new connection.
  await using first = await sentinel(one.port, (query) => {
    queries++
    return query % 4 < 2 ? 0 : 40
  })
  await using second = await sentinel(other.port, (query) => (query % 4 < 2 ? 40 : 0))
  const options = { sentinel: { nodes: nodesOf([first, second]), name: 'main' }, commandTimeout: PATIENT_MS }
  await withLimiter(options, async (limiter, store) => {
    const addresses = new Set<string | undefined>()
    await until('eight queries', async () => {
      await limiter.take('key')
      addresses.add(store.status().address)
      return queries >= 8
    })
    expect(addresses.size).toBe(1)
    const keys = await Promise.all([one, other].map((server) => server.command<string[]>('KEYS', '*{*')))
    expect(keys.map(({ length }) => length).sort()).toEqual([0, 1])
  })
})
