/** Workers on workerd, and the servers that they call. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { buffer } from 'node:stream/consumers'
import { startProgram } from '../node.js'

/** A served Worker. */
export interface ServedWorker {
  readonly url: string
  stop(): Promise<void>
}

/** The behaviour of workerd that a Worker asks for. */
export interface Compatibility {
  readonly compatibilityDate: string
  readonly compatibilityFlags: readonly string[]
}

/** The earliest date on docs/serverless.md. */
export const EARLIEST: Compatibility = { compatibilityDate: '2024-10-14', compatibilityFlags: [] }

/** The latest date of the installed workerd, with the modules of Node.js. */
export const LATEST: Compatibility = { compatibilityDate: '2026-04-26', compatibilityFlags: ['nodejs_compat'] }

/** Serves a program as a Worker with these variables. */
export async function serveWorker(
  contents: string,
  bindings: Readonly<Record<string, string>>,
  compatibility: Compatibility,
): Promise<ServedWorker> {
  const program = startProgram(join(__dirname, 'serve.mjs'), JSON.stringify({ contents, bindings, ...compatibility }))
  const ended = once(program, 'exit')
  const [url] = await Promise.race([once(createInterface(program.stdout), 'line'), ended])
  if (typeof url !== 'string') {
    throw new Error(`the Worker does not start: ${url}`)
  }
  const stop = async () => {
    program.kill('SIGTERM')
    await ended
  }
  return { url, stop }
}

type Answer = (request: IncomingMessage, body: Buffer, response: ServerResponse) => void

/** A server that answers a request when the test says so. */
export class HeldServer {
  readonly #server
  readonly #requests: (() => void)[] = []
  #onRequest = () => {}
  /** Whether requests wait for {@link next}. */
  isHeld = true

  /** @param holds - Whether a request with this body is held. */
  private constructor(answer: Answer, holds: (body: Buffer) => boolean) {
    this.#server = createServer(async (request, response) => {
      const body = await buffer(request)
      if (this.isHeld && holds(body)) {
        this.#requests.push(() => answer(request, body, response))
        this.#onRequest()
      } else {
        answer(request, body, response)
      }
    })
  }

  static async start(answer: Answer, holds: (body: Buffer) => boolean = () => true): Promise<HeldServer> {
    const held = new HeldServer(answer, holds)
    held.#server.listen(0, '127.0.0.1')
    await once(held.#server, 'listening')
    return held
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Waits for the next request. @returns A function that answers it. */
  async next(): Promise<() => void> {
    while (this.#requests.length === 0) {
      await new Promise<void>((resolve) => {
        this.#onRequest = resolve
      })
    }
    return this.#requests.shift() as () => void
  }

  /** Answers the requests that wait, and all further ones at once. */
  release(): void {
    this.isHeld = false
    for (const answer of this.#requests.splice(0)) {
      answer()
    }
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
