/** A network that ends a connection in the middle of a reply. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { freePort } from './servers.mjs'

export class Cutter {
  #listener
  #sockets = new Set()
  /** Called when a reply has been cut. */
  #cut

  constructor(port, target) {
    this.port = port
    this.#listener = createServer({ noDelay: true }, (client) => this.#serve(client, target)).listen(port, '127.0.0.1')
  }

  static async start(target) {
    const cutter = new Cutter(await freePort(), target)
    await once(cutter.#listener, 'listening')
    return cutter
  }

  /** Passes half of the next reply to a client, and ends its connection. */
  cutNextReply() {
    return new Promise((resolve) => {
      this.#cut = resolve
    })
  }

  async stop() {
    this.#listener.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #serve(client, target) {
    const server = connect({ port: target.port, host: '127.0.0.1', noDelay: true })
    const end = () => {
      client.destroy()
      server.destroy()
      this.#sockets.delete(client)
      this.#sockets.delete(server)
    }
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.on('error', end).on('close', end)
    }
    client.on('data', (bytes) => server.write(bytes))
    server.on('data', (bytes) => {
      const cut = this.#cut
      if (cut === undefined) {
        client.write(bytes)
        return
      }
      this.#cut = undefined
      client.write(bytes.subarray(0, Math.ceil(bytes.length / 2)), () => {
        end()
        cut()
      })
    })
  }
}
