/** A server that answers a call with a reply that never ends. */

import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { fixedWindow, RateLimiter, RedisStore } from '../../../ts/index.js'
import { until } from '../../servers/until.js'
import { outcome, PATIENT_MS } from '../help.js'

const MIB = 1 << 20

/** A server that answers scripts with a beginning, and then with more of the same. */
class EndlessServer {
  /** The bytes that were sent in reply to scripts. */
  sent = 0
  /** The connections that clients have closed after such a reply. */
  closed = 0
  readonly #clients = new Set<Socket>()
  readonly #listener = createServer((client) => {
    this.#clients.add(client)
    client.on('error', () => {})
    client.on('data', (bytes) => {
      const text = bytes.toString('latin1')
      if (/EVAL/.test(text)) {
        client.on('close', () => this.closed++)
        // A reply to a health check would end the endless one.
        client.removeAllListeners('data').resume()
        this.#flood(client)
      } else {
        // One reply for each command.
        client.write('+OK\r\n'.repeat(text.match(/\*\d+\r\n/g)?.length ?? 0))
      }
    })
  })

  constructor(
    private readonly beginning: string,
    private readonly more: string,
  ) {}

  /** Listens, and returns the port. */
  async start(): Promise<number> {
    this.#listener.listen(0, '127.0.0.1')
    await once(this.#listener, 'listening')
    return (this.#listener.address() as AddressInfo).port
  }

  [Symbol.dispose](): void {
    this.#listener.close()
    for (const client of this.#clients) {
      client.destroy()
    }
  }

  #flood(client: Socket): void {
    const part = Buffer.from(this.more.repeat(MIB / 16 / this.more.length))
    const send = () => {
      while (!client.destroyed && this.sent < 1_024 * MIB) {
        this.sent += part.length
        if (!client.write(part)) {
          client.once('drain', send)
          return
        }
      }
    }
    client.write(this.beginning)
    send()
  }
}

test.each([
  ['a text that is announced as a gigabyte', '$1073741824\r\n', 'x'],
  ['an endless line', '+', 'x'],
  ['an endless line with newlines', '+', 'x\n'],
  ['a list whose items are lists', '*900000\r\n', '*1\r\n:1\r\n'],
])('%s is not read: the connection is closed, and the error says why', async (_, beginning, more) => {
  using server = new EndlessServer(beginning, more)
  const port = await server.start()
  await using store = new RedisStore({ host: '127.0.0.1', port, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(fixedWindow({ limit: 10, window: '1d' }), { store, prefix: 'hostile' })
  const { error } = await outcome(limiter.take('key'))
  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: 'unknown' })
  expect(error?.message).toContain('a reply has more than 16 MiB')
  await until('the connection is closed', async () => server.closed > 0)
  // The bound, and what the sockets of both ends hold, for each connection.
  expect(server.sent).toBeLessThan(64 * MIB * (server.closed + 1))
})
