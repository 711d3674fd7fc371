/** Requests of the tests over HTTP/1.1 and HTTP/2, which can also be reset. */
import { type Agent, request } from 'node:http'
import { type ClientHttp2Session, connect, constants } from 'node:http2'
import { connect as connectTcp, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Framework, ServedApp } from './frameworks.js'

export interface Answer {
  readonly status: number
  readonly headers: { readonly [name: string]: string | readonly string[] | number | undefined }
  readonly body: string
}

export interface Ask {
  readonly method?: string
  readonly path?: string
  readonly headers?: { readonly [name: string]: string }
  /** Default: a connection for each request. */
  readonly agent?: Agent
}

/** A request that was sent. */
export interface Sent {
  /** Rejects if the request was reset. */
  readonly answer: Promise<Answer>
  /** Disconnects: over HTTP/2 only the stream. */
  reset(): void
}

/** A promise that is resolved from outside. */
export function pending(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((kept) => {
    resolve = kept
  })
  return { promise, resolve }
}

/** A client of one app. */
export class Client {
  readonly #framework: Framework
  readonly #url: string
  readonly #session: ClientHttp2Session | undefined

  constructor(framework: Framework, { url }: ServedApp) {
    this.#framework = framework
    this.#url = url
    this.#session = framework.isHttp2 ? connect(url).on('error', () => {}) : undefined
  }

  send(plain: Ask = {}): Sent {
    const ask = this.#framework.ask?.(plain) ?? plain
    const sent = this.#session === undefined ? this.#overHttp1(ask) : this.#overHttp2(ask, this.#session)
    // Many tests reset the request, and expect no answer.
    sent.answer.catch(() => {})
    return sent
  }

  get(ask?: Ask): Promise<Answer> {
    return this.send(ask).answer
  }

  /** Sends requests over HTTP/1.1 on one connection, without waiting for answers. Returns their statuses. */
  async pipeline(asks: readonly Ask[]): Promise<number[]> {
    return [...(await text(this.#pipelined(asks))).matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
  }

  /** Sends requests as `pipeline` does, and returns a function that resets their connection. */
  sendPipeline(asks: readonly Ask[]): () => void {
    const socket = this.#pipelined(asks).on('error', () => {})
    return () => void socket.resetAndDestroy()
  }

  #pipelined(asks: readonly Ask[]): Socket {
    const { hostname, port } = new URL(this.#url)
    const written = asks.map((plain, index) => {
      const { method = 'GET', path = '/', headers = {} } = this.#framework.ask?.(plain) ?? plain
      const all = { host: 'localhost', connection: index === asks.length - 1 ? 'close' : 'keep-alive', ...headers }
      const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
      return [`${method} ${path} HTTP/1.1`, ...lines, '', ''].join('\r\n')
    })
    const socket = connectTcp(Number(port), hostname)
    socket.write(written.join(''))
    return socket
  }

  close(): void {
    this.#session?.destroy()
  }

  #overHttp1({ method = 'GET', path = '/', headers = {}, agent }: Ask): Sent {
    const client = request(this.#url + path, { method, headers, agent: agent ?? false })
    const answer = new Promise<Answer>((resolve, reject) => {
      client.on('error', reject)
      client.on('response', (response) => {
        let body = ''
        response.setEncoding('utf8').on('data', (chunk: string) => {
          body += chunk
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }))
        response.on('error', reject)
      })
    })
    client.end()
    return { answer, reset: () => void client.destroy() }
  }

  #overHttp2({ method = 'GET', path = '/', headers = {} }: Ask, session: ClientHttp2Session): Sent {
    const stream = session.request({ ':method': method, ':path': path, ...headers })
    const answer = new Promise<Answer>((resolve, reject) => {
      let received: Answer | undefined
      let body = ''
      stream.on('error', reject)
      stream.on('response', (headers) => {
        received = { status: headers[':status'] ?? 0, headers, body }
      })
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk
      })
      stream.on('close', () =>
        received === undefined ? reject(new Error('no answer')) : resolve({ ...received, body }),
      )
    })
    stream.end()
    return { answer, reset: () => stream.close(constants.NGHTTP2_CANCEL) }
  }
}
