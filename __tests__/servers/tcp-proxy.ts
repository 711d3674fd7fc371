import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './ports.js'

/** Which way bytes go: up to the server, or down to its client. */
export type Way = 'up' | 'down'

/** What is on its way, in order. */
interface Lane {
  readonly steps: { readonly due: number; readonly run: () => void }[]
  timer: NodeJS.Timeout | undefined
}

/** A client's connection, with the one that the proxy has made for it. */
interface Pair {
  readonly client: Socket
  readonly server: Socket
  readonly lanes: Readonly<Record<Way, Lane>>
}

/**
 * A network between clients and a server that can be slow, silent or gone. It runs in this process: its delays
 * come on top of what the event loop has.
 */
export class TcpProxy {
  /** Added to each way, in milliseconds. */
  latencyMs = 0
  #target: number
  readonly #pairs = new Set<Pair>()
  readonly #held = new Set<Way>()
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

  /** New connections go to another server on this machine; those that are there stay where they are. */
  lead(target: { readonly port: number }): void {
    this.#target = target.port
  }

  /** How many clients are connected. */
  get connections(): number {
    return this.#pairs.size
  }

  /**
   * Forwards nothing more, or nothing more one way: connections stay, new ones are accepted, and nobody learns of it.
   */
  hold(...ways: readonly Way[]): void {
    for (const way of ways.length > 0 ? ways : (['up', 'down'] as const)) {
      this.#held.add(way)
    }
  }

  /** Forwards again, also what has come meanwhile. */
  release(): void {
    this.#held.clear()
    for (const pair of [...this.#pairs]) {
      this.#advance(pair, 'up')
      this.#advance(pair, 'down')
    }
  }

  /** Breaks all connections. What was held on them is lost. */
  cut(): void {
    for (const pair of this.#pairs) {
      this.#end(pair)
    }
  }

  /** Takes no new connections: they are refused. Those that are there stay. */
  async refuse(): Promise<void> {
    const listener = this.#listener
    this.#listener = undefined
    if (listener !== undefined) {
      // Once it listens no more; it is closed when its connections are.
      listener.close()
    }
  }

  /** Takes connections again. */
  async accept(): Promise<void> {
    if (this.#listener === undefined) {
      const listener = createServer({ noDelay: true }, (client) => this.#serve(client))
      this.#listener = listener.listen(this.port, '127.0.0.1')
      await once(listener, 'listening')
    }
  }

  /** Ends all. May be called again. */
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
    const lane = (): Lane => ({ steps: [], timer: undefined })
    const pair = { client, server, lanes: { up: lane(), down: lane() } }
    this.#pairs.add(pair)
    this.#forward(pair, 'up', client, server)
    this.#forward(pair, 'down', server, client)
  }

  #forward(pair: Pair, way: Way, from: Socket, to: Socket): void {
    const pass = (run: () => void) => {
      pair.lanes[way].steps.push({ due: performance.now() + this.latencyMs, run })
      this.#advance(pair, way)
    }
    from.on('data', (bytes) => pass(() => to.write(bytes)))
    // An end is told as all else is: late, or never while its way is held.
    from.on('end', () => pass(() => to.end()))
    from.on('error', () => pass(() => this.#end(pair)))
    from.on('close', () => pass(() => this.#end(pair)))
  }

  /** Does what is due, in order. */
  #advance(pair: Pair, way: Way): void {
    const lane = pair.lanes[way]
    clearTimeout(lane.timer)
    while (this.#pairs.has(pair) && !this.#held.has(way)) {
      const [step] = lane.steps
      if (step === undefined) {
        return
      }
      const ms = step.due - performance.now()
      if (ms > 0) {
        lane.timer = setTimeout(() => this.#advance(pair, way), ms)
        return
      }
      lane.steps.shift()
      step.run()
    }
  }

  #end(pair: Pair): void {
    this.#pairs.delete(pair)
    clearTimeout(pair.lanes.up.timer)
    clearTimeout(pair.lanes.down.timer)
    pair.client.destroy()
    pair.server.destroy()
  }
}
