import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createServer, type Server, type TLSSocket } from 'node:tls'
import type { CertifiedKey } from './certificates.js'

const { TOLLGATE_REDIS_TLS } = process.env

/** Whether the program was built without TLS, as some that are packed for tests are; `npm run test:servers` asks it. */
export const HAS_NO_TLS = TOLLGATE_REDIS_TLS === 'none'

/** What a server shows its clients, and what it wants of them. */
export interface ServerTls {
  /** Who it says that it is. */
  readonly server: CertifiedKey
  /** The certificate of the authority that its clients must have one of: without, they need none. */
  readonly clientAuthority?: string
}

/** The lines of a server's configuration for it. */
export function tlsLines(folder: string, port: number, { clientAuthority }: ServerTls): string[] {
  return [
    `tls-port ${port}`,
    `tls-cert-file ${join(folder, 'server.crt')}`,
    `tls-key-file ${join(folder, 'server.key')}`,
    `tls-ca-cert-file ${join(folder, 'ca.crt')}`,
    `tls-auth-clients ${clientAuthority === undefined ? 'no' : 'yes'}`,
  ]
}

/** The files that those lines name, by name. */
export function tlsFiles({ server, clientAuthority = server.authority }: ServerTls): Record<string, string> {
  return { 'server.crt': server.certificate, 'server.key': server.key, 'ca.crt': clientAuthority }
}

/** Node's TLS in this process, before a server on a unix socket that speaks none itself. */
export class TlsTerminator {
  readonly #listener: Server
  readonly #clients = new Set<TLSSocket>()

  private constructor(socketPath: string, { server, clientAuthority }: ServerTls) {
    const asks = clientAuthority === undefined ? {} : { ca: clientAuthority, requestCert: true }
    const shown = { cert: server.certificate, key: server.key }
    this.#listener = createServer({ ...shown, ...asks, rejectUnauthorized: true }, (client) => {
      const behind = connect(socketPath)
      this.#clients.add(client)
      // Whichever end goes, the other goes with it.
      const end = () => {
        this.#clients.delete(client)
        client.destroy()
        behind.destroy()
      }
      for (const socket of [client, behind]) {
        socket.on('error', end).on('close', end)
      }
      client.pipe(behind).pipe(client)
    })
  }

  /** Starts it at a port of this machine. */
  static async start(port: number, socketPath: string, tls: ServerTls): Promise<TlsTerminator> {
    const terminator = new TlsTerminator(socketPath, tls)
    terminator.#listener.listen(port, '127.0.0.1')
    await once(terminator.#listener, 'listening')
    return terminator
  }

  /** Shows another certificate to whoever connects from now on. */
  present({ certificate, key }: CertifiedKey): void {
    this.#listener.setSecureContext({ cert: certificate, key })
  }

  /** Ends all connections, and frees the port. */
  async close(): Promise<void> {
    const closed = once(this.#listener, 'close')
    this.#listener.close()
    for (const client of this.#clients) {
      client.destroy()
    }
    await closed
  }
}
