import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createServer, type Server, type TLSSocket } from 'node:tls'
import type { CertifiedKey } from './certificates.js'

const { TOLLGATE_REDIS_TLS } = process.env

/**
 * Whether the program was built without TLS, as some packaged versions are. `npm run test:servers`
 * sets it.
 */
export const HAS_NO_TLS = TOLLGATE_REDIS_TLS === 'none'

/** A server's certificate, and its demands on clients. */
export interface ServerTls {
  /** Its own certificate. */
  readonly server: CertifiedKey
  /** The certificate of the authority for client certificates. By default clients need none. */
  readonly clientAuthority?: string
}

/** The configuration lines of a server. */
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

/** A TLS terminator in this process, before a server without TLS on a unix socket. */
export class TlsTerminator {
  readonly #listener: Server
  readonly #clients = new Set<TLSSocket>()

  private constructor(socketPath: string, { server, clientAuthority }: ServerTls) {
    const requirements = clientAuthority === undefined ? {} : { ca: clientAuthority, requestCert: true }
    const shown = { cert: server.certificate, key: server.key }
    this.#listener = createServer({ ...shown, ...requirements, rejectUnauthorized: true }, (client) => {
      const backend = connect(socketPath)
      this.#clients.add(client)
      // Closing either end closes the other.
      const end = () => {
        this.#clients.delete(client)
        client.destroy()
        backend.destroy()
      }
      for (const socket of [client, backend]) {
        socket.on('error', end).on('close', end)
      }
      client.pipe(backend).pipe(client)
    })
  }

  /** Starts it at a local port. */
  static async start(port: number, socketPath: string, tls: ServerTls): Promise<TlsTerminator> {
    const terminator = new TlsTerminator(socketPath, tls)
    terminator.#listener.listen(port, '127.0.0.1')
    await once(terminator.#listener, 'listening')
    return terminator
  }

  /** Replaces the certificate for new connections. */
  present({ certificate, key }: CertifiedKey): void {
    this.#listener.setSecureContext({ cert: certificate, key })
  }

  /** Closes all connections, and frees the port. */
  async close(): Promise<void> {
    const closed = once(this.#listener, 'close')
    this.#listener.close()
    for (const client of this.#clients) {
      client.destroy()
    }
    await closed
  }
}
