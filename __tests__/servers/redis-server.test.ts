/** The behaviour of the test servers. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { Redis } from 'ioredis'
import { RedisServer } from './redis-server.js'
import { until } from './until.js'

/** The port of a server, as INFO reports it. */
function client(server: RedisServer): Redis {
  return new Redis(server.port, '127.0.0.1', { retryStrategy: () => null, maxRetriesPerRequest: 0 })
}

test('commands have parsed replies, and errors throw', async () => {
  await using server = await RedisServer.start()
  expect(await server.command('SET', 'key', 7)).toBe('OK')
  expect(await server.command('INCR', 'key')).toBe(8)
  expect(await server.command('GET', 'none')).toBeNull()
  expect(await server.command('EVAL', "return {1, 'two', {3}}", 0)).toEqual([1, 'two', [3]])
  await expect(server.command('LPUSH', 'key', 'x')).rejects.toThrow('WRONGTYPE')
  expect(await server.info('tcp_port')).toBe(`${server.port}`)
})

test('a server listens on its port and on its unix socket', async () => {
  await using server = await RedisServer.start()
  await server.command('SET', 'key', 'value')
  const one = client(server)
  expect(await one.get('key')).toBe('value')
  one.disconnect()
})

test.each([
  ['keeps nothing', [], null],
  ['keeps what its append-only file has', ['appendonly yes', 'appendfsync always'], 'value'],
])('a killed and restarted server %s', async (_, config, kept) => {
  await using server = await RedisServer.start({ config })
  await server.command('SET', 'key', 'value')
  const { pid } = server
  await server.kill()
  expect(server.pid).toBeUndefined()
  await expect(server.command('PING')).rejects.toThrow()
  await server.begin()
  expect(server.pid).not.toBe(pid)
  expect(await server.command('GET', 'key')).toBe(kept)
})

test('a frozen server keeps its connections and does not answer until it is thawed', async () => {
  await using server = await RedisServer.start()
  const one = client(server)
  await one.ping()
  server.freeze()
  let answered = false
  const reply = one.ping().then(() => {
    answered = true
  })
  // A second server answers, later than this one would have.
  await using other = await RedisServer.start()
  await other.command('PING')
  expect([answered, server.isFrozen]).toEqual([false, true])
  server.thaw()
  await reply
  one.disconnect()
})

test('a server has the configured memory, users and passwords', async () => {
  await using server = await RedisServer.start({
    config: ['maxmemory 1', 'maxmemory-policy noeviction', 'aclfile users.acl'],
    files: { 'users.acl': 'user default on >secret ~* &* +@all\nuser reader on >other ~* +get\n' },
    credentials: { password: 'secret' },
  })
  await expect(server.command('SET', 'key', 'x')).rejects.toThrow('OOM')
  server.credentials = { username: 'reader', password: 'other' }
  await expect(server.command('SET', 'key', 'x')).rejects.toThrow('NOPERM')
  server.credentials = { username: 'reader', password: 'wrong' }
  await expect(server.command('GET', 'key')).rejects.toThrow('WRONGPASS')
})

test('a server that cannot start reports the reason', async () => {
  for (let tries = 0; tries < 5; tries++) {
    await expect(RedisServer.start({ config: ['maxmemory much'] })).rejects.toThrow(/redis-server.*ended with 1/)
  }
  await using server = await RedisServer.reserve()
  const other = createServer().listen(server.port, '127.0.0.1')
  await once(other, 'listening')
  await expect(server.begin()).rejects.toThrow('in use')
  other.close()
})

test('the clock of a running server is stepped by a year and back', async () => {
  await using server = await RedisServer.start({ hasOwnClock: true })
  const one = client(server)
  /** Its times within and outside of scripts, in seconds. */
  const times = async () => {
    const both = [await one.time(), (await one.eval("return redis.call('TIME')", 0)) as string[]]
    return both.map(([seconds, micros]) => Number(seconds) + Number(micros) / 1e6)
  }
  /** Expects that its clock is so many seconds ahead, within the time that the commands took. */
  const expectAhead = async (seconds: number) => {
    const before = Date.now() / 1_000
    const found = await times()
    const after = Date.now() / 1_000
    for (const time of found) {
      // Clocks are read to the millisecond, and the step counts from when the server has read it.
      expect(time - seconds).toBeGreaterThan(before - 0.1)
      expect(time - seconds).toBeLessThan(after + 0.1)
    }
  }
  await one.set('key', 'value', 'PX', 600_000)
  await expectAhead(0)
  const year = 365 * 86_400
  for (const step of [10, -10, year, 0]) {
    await server.stepClock(step)
    await expectAhead(step)
    // A key expires by this clock.
    expect(await one.get('key')).toBe(step > 600 ? null : 'value')
    await one.set('key', 'value', 'PX', 600_000)
  }
  // And time advances.
  const [before = 0] = await times()
  await until('its clock has advanced', async () => ((await times())[0] as number) > before + 0.01)
  one.disconnect()
})

test('a server without its own clock refuses to step it', async () => {
  await using server = await RedisServer.start()
  await expect(server.stepClock(10)).rejects.toThrow('hasOwnClock')
})

test('stopping all servers leaves no folder behind', async () => {
  const servers = await Promise.all([RedisServer.start(), RedisServer.reserve()])
  const folder = dirname(dirname(servers[0].socketPath))
  await Promise.all(servers.flatMap((server) => [server.stop(), server.stop()]))
  await until('their folder is gone', async () => !existsSync(folder))
})

test.each(['SIGKILL', 'SIGINT'] as const)(
  'a process ended by %s leaves no server and no folder behind',
  async (signal) => {
    const child = spawn(process.execPath, [join(__dirname, 'left-behind.cjs')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = await once(child.stdout, 'data')
    const { pid, socketPath } = JSON.parse(`${line}`) as { pid: number; socketPath: string }
    expect(existsSync(socketPath)).toBe(true)
    child.kill(signal)
    await once(child, 'exit')
    await until('the server has ended', async () => !isRunning(pid))
    await until('its folder is gone', async () => !existsSync(dirname(dirname(socketPath))))
  },
)

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
