import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './ports.js'

/** The direction of bytes: up to the server, or down to its client. */
export type Direction = 'up' | 'down'

/** The bytes and events in transit, in order. */
interface ByteQueue {
  readonly steps: { readonly due: number; readonly run: () => void }[]
  timer: NodeJS.Timeout | undefined
}

/** A client's connection, and the proxy's connection for it. */
interface ProxiedConnection {
  readonly client: Socket
  readonly server: Socket
  readonly queues: Readonly<Record<Direction, ByteQueue>>
}

/**
 * A network between clients and a server that can be slow, silent or down. It runs in this process:
 * the event loop's delays come on top of the configured ones.
 */
export class TcpProxy {
  /** Added in each direction, in milliseconds. */
  latencyMs = 0
  #target: number
  readonly #pairs = new Set<ProxiedConnection>()
  readonly #held = new Set<Direction>()
  #listener: Server | undefined

  private constructor(
    readonly port: number,
    target: number,
  ) {
    this.#target = target
  }

  /** Starts a proxy before a server on this machine. */
  static async start(target: { readonly port: number }): Promise<TcpProxy> {
    const proxy = new TcpProxy(await freePort(), target.port)
    await proxy.accept()
    return proxy
  }

  get url(): `redis://${string}` {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Connects new clients to another server on this machine. Existing connections stay. */
  lead(target: { readonly port: number }): void {
    this.#target = target.port
  }

  /** The number of connected clients. */
  get connections(): number {
    return this.#pairs.size
  }

  /** The number of chunks of bytes, and of events, that wait in a direction. */
  waiting(direction: Direction): number {
    return [...this.#pairs].reduce((sum, { queues }) => sum + queues[direction].steps.length, 0)
  }

  /**
   * Stops forwarding in both directions or in one: connections stay, new ones are accepted, and
   * neither end is notified.
   */
  hold(...directions: readonly Direction[]): void {
    for (const direction of directions.length > 0 ? directions : (['up', 'down'] as const)) {
      this.#held.add(direction)
    }
  }

  /** Resumes forwarding, including the held bytes. */
  release(): void {
    this.#held.clear()
    for (const pair of [...this.#pairs]) {
      this.#advance(pair, 'up')
      this.#advance(pair, 'down')
    }
  }

  /** Closes all connections. Held bytes are lost. */
  cut(): void {
    for (const pair of this.#pairs) {
      this.#end(pair)
    }
  }

  /** Refuses new connections. Existing ones stay. */
  async refuse(): Promise<void> {
    const listener = this.#listener
    this.#listener = undefined
    if (listener !== undefined) {
      // Waits until it no longer listens; the listener closes after its connections.
      listener.close()
    }
  }

  /** Accepts connections again. */
  async accept(): Promise<void> {
    if (this.#listener === undefined) {
      const listener = createServer({ noDelay: true }, (client) => this.#serve(client))
      this.#listener = listener.listen(this.port, '127.0.0.1')
      await once(listener, 'listening')
    }
  }

  /** Closes all. May be called again. */
  async stop(): Promise<void> {
    await this.refuse()
    this.cut()
  }

  /** {@link stop}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #serve(client: Socket): void {
    const server = connect({ port: this.#target, host: '127.0.0.1', noDelay: true })
    const queue = (): ByteQueue => ({ steps: [], timer: undefined })
    const pair = { client, server, queues: { up: queue(), down: queue() } }
    this.#pairs.add(pair)
    this.#forward(pair, 'up', client, server)
    this.#forward(pair, 'down', server, client)
  }

  #forward(pair: ProxiedConnection, direction: Direction, from: Socket, to: Socket): void {
    const pass = (run: () => void) => {
      pair.queues[direction].steps.push({ due: performance.now() + this.latencyMs, run })
      this.#advance(pair, direction)
    }
    from.on('data', (bytes) => pass(() => to.write(bytes)))
    // The end of a connection is delayed like bytes, or held while its direction is held.
    from.on('end', () => pass(() => to.end()))
    from.on('error', () => pass(() => this.#end(pair)))
    from.on('close', () => pass(() => this.#end(pair)))
  }

  /** Processes the due entries, in order. */
  #advance(pair: ProxiedConnection, direction: Direction): void {
    const queue = pair.queues[direction]
    clearTimeout(queue.timer)
    while (this.#pairs.has(pair) && !this.#held.has(direction)) {
      const [step] = queue.steps
      if (step === undefined) {
        return
      }
      const ms = step.due - performance.now()
      if (ms > 0) {
        queue.timer = setTimeout(() => this.#advance(pair, direction), ms)
        return
      }
      queue.steps.shift()
      step.run()
    }
  }

  #end(pair: ProxiedConnection): void {
    this.#pairs.delete(pair)
    clearTimeout(pair.queues.up.timer)
    clearTimeout(pair.queues.down.timer)
    pair.client.destroy()
    pair.server.destroy()
  }
}
