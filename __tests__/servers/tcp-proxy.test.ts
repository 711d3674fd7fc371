/** The proxy delays, blocks and closes connections as configured. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { RedisServer } from './redis-server.js'
import { TcpProxy } from './tcp-proxy.js'
import { until } from './until.js'

let server: RedisServer
let proxy: TcpProxy

beforeAll(async () => {
  server = await RedisServer.start()
})

afterAll(() => server.stop())

beforeEach(async () => {
  proxy = await TcpProxy.start(server)
})

afterEach(() => proxy.stop())

async function connected(): Promise<Socket> {
  const socket = connect(proxy.port, '127.0.0.1')
  await once(socket, 'connect')
  return socket
}

/** The next reply to a command. */
async function reply(socket: Socket, command: string): Promise<string> {
  socket.write(`${command}\r\n`)
  const [bytes] = await once(socket, 'data')
  return `${bytes}`
}

/** Records the bytes that a socket receives. */
function received(socket: Socket): { text: string } {
  const all = { text: '' }
  socket.on('data', (bytes) => {
    all.text += bytes
  })
  return all
}

test('forwards, and adds its latency in both directions', async () => {
  const socket = await connected()
  expect(await reply(socket, 'PING')).toBe('+PONG\r\n')
  proxy.latencyMs = 50
  const start = performance.now()
  expect(await reply(socket, 'PING')).toBe('+PONG\r\n')
  // Timers are never early by more than a millisecond.
  expect(performance.now() - start).toBeGreaterThanOrEqual(98)
  socket.destroy()
})

test('bytes keep their order when the latency ends', async () => {
  const socket = await connected()
  const replies = received(socket)
  proxy.latencyMs = 100
  for (let call = 0; call < 20; call++) {
    socket.write(`ECHO ${call}\r\n`)
    // The proxy holds each call in a chunk of its own, or has passed it on.
    await new Promise(setImmediate)
    proxy.latencyMs = Math.max(0, proxy.latencyMs - 10)
  }
  const numbers = () => replies.text.match(/\d+(?=\r\n[$]|\r\n$)/g)
  await until('all replies are there', async () => numbers()?.length === 20)
  expect(numbers()).toEqual(Array.from({ length: 20 }, (_, call) => `${call}`))
  socket.destroy()
})

test('redirected to another server, it connects new clients there', async () => {
  await using other = await RedisServer.start()
  await other.command('SET', 'other', '1')
  const before = await connected()
  await reply(before, 'PING')
  proxy.lead(other)
  const after = await connected()
  expect(await reply(before, 'EXISTS other')).toBe(':0\r\n')
  expect(await reply(after, 'EXISTS other')).toBe(':1\r\n')
  before.destroy()
  after.destroy()
})

test('held, it accepts and never answers; released, it forwards the held bytes', async () => {
  const before = await connected()
  proxy.hold()
  const after = await connected()
  const both = [before, after].map(received)
  before.write('SET held 1\r\n')
  after.write('PING\r\n')
  await until('the proxy holds both commands', async () => proxy.waiting('up') === 2)
  expect(await server.command('EXISTS', 'held')).toBe(0)
  expect([proxy.waiting('up'), ...both.map(({ text }) => text)]).toEqual([2, '', ''])
  proxy.release()
  await until('both are answered', async () => both.every(({ text }) => text !== ''))
  expect(both.map(({ text }) => text)).toEqual(['+OK\r\n', '+PONG\r\n'])
  before.destroy()
  after.destroy()
})

test('held in one direction, commands arrive and their replies do not', async () => {
  const socket = await connected()
  const replies = received(socket)
  proxy.hold('down')
  socket.write('SET down 1\r\n')
  await until('the proxy holds the reply', async () => proxy.waiting('down') === 1)
  expect(await server.command('EXISTS', 'down')).toBe(1)
  expect([proxy.waiting('down'), replies.text]).toEqual([1, ''])
  socket.destroy()
})

test('closes all connections, and accepts new ones', async () => {
  const socket = await connected()
  await reply(socket, 'PING')
  const closed = once(socket, 'close')
  proxy.cut()
  await closed
  expect(proxy.connections).toBe(0)
  const next = await connected()
  expect(await reply(next, 'PING')).toBe('+PONG\r\n')
  next.destroy()
})

test('refuses new connections, and keeps existing ones', async () => {
  const socket = await connected()
  await reply(socket, 'PING')
  await proxy.refuse()
  await expect(connected()).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  expect(await reply(socket, 'PING')).toBe('+PONG\r\n')
  await proxy.accept()
  const next = await connected()
  expect(await reply(next, 'PING')).toBe('+PONG\r\n')
  socket.destroy()
  next.destroy()
})

test("a server that exits closes its clients' connections", async () => {
  await using mortal = await RedisServer.start()
  await using before = await TcpProxy.start(mortal)
  const socket = connect(before.port, '127.0.0.1')
  expect(await reply(socket, 'PING')).toBe('+PONG\r\n')
  const closed = once(socket, 'close')
  await mortal.kill()
  await closed
  expect(before.connections).toBe(0)
})
