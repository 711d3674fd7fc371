import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './ports.js'

/** Options of a {@link KeyRouter}. */
export interface KeyRouterOptions {
  /** Routes by the hash tag of a key if it has one, as with `enable_hashtagging` of Envoy. */
  readonly hashTags?: boolean
  /** After this time without a reply of a shard, the client gets an error, as with twemproxy's `timeout`. */
  readonly timeoutMs?: number
}

/** A reply that a client waits for. */
interface PendingReply {
  bytes: Buffer | undefined
  timer?: NodeJS.Timeout
}

/** The connection to a shard for one client, with the replies that it owes. */
interface Upstream {
  readonly socket: Socket
  readonly owed: PendingReply[]
  unread: Buffer
}

/**
 * A proxy in front of several servers that routes a script by its first key, as twemproxy and the
 * Redis proxy of Envoy do. The other keys of the script are on that server, too, wherever their own
 * names would lead.
 */
export class KeyRouter {
  readonly #listener: Server
  readonly #clients = new Set<Socket>()

  private constructor(
    readonly port: number,
    private readonly shards: readonly { readonly port: number }[],
    private readonly options: KeyRouterOptions,
  ) {
    this.#listener = createServer({ noDelay: true }, (client) => this.#serve(client)).listen(port, '127.0.0.1')
  }

  /** Starts a proxy before servers on this machine. */
  static async start(shards: readonly { readonly port: number }[], options: KeyRouterOptions = {}): Promise<KeyRouter> {
    const router = new KeyRouter(await freePort(), shards, options)
    await once(router.#listener, 'listening')
    return router
  }

  get url(): `redis://${string}` {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Closes all connections. May be called again. */
  async stop(): Promise<void> {
    this.#listener.close()
    for (const client of this.#clients) {
      client.destroy()
    }
  }

  /** {@link stop}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #serve(client: Socket): void {
    this.#clients.add(client)
    const upstreams = new Map<number, Upstream>()
    const replies: PendingReply[] = []
    let unread = Buffer.alloc(0)
    const end = () => {
      this.#clients.delete(client)
      client.destroy()
      for (const { socket } of upstreams.values()) {
        socket.destroy()
      }
    }
    /** Sends the replies that have come, in the order of the commands. */
    const flush = () => {
      while (replies[0]?.bytes !== undefined) {
        client.write(replies.shift()?.bytes as Buffer)
      }
    }
    client.on('error', end).on('close', end)
    client.on('data', (bytes) => {
      unread = Buffer.concat([unread, bytes as Buffer])
      for (let length = lengthOf(unread); length !== undefined; length = lengthOf(unread)) {
        const [command, reply] = [unread.subarray(0, length), { bytes: undefined } as PendingReply]
        unread = unread.subarray(length)
        replies.push(reply)
        const [name = '', , , key] = wordsOf(command)
        if (/^EVAL(SHA)?$/i.test(name) && key !== undefined) {
          this.#forward(upstreams, this.#shardOf(key), command, reply, flush, end)
        } else {
          const isPing = name.toUpperCase() === 'PING'
          reply.bytes = Buffer.from(isPing ? '+PONG\r\n' : `-ERR unknown command '${name}'\r\n`)
        }
      }
      flush()
    })
  }

  #forward(
    upstreams: Map<number, Upstream>,
    shard: number,
    command: Buffer,
    reply: PendingReply,
    flush: () => void,
    end: () => void,
  ): void {
    const opened = upstreams.get(shard) ?? this.#open(shard, flush, end)
    upstreams.set(shard, opened)
    opened.owed.push(reply)
    opened.socket.write(command)
    const { timeoutMs } = this.options
    if (timeoutMs !== undefined) {
      reply.timer = setTimeout(() => {
        reply.bytes = Buffer.from('-ERR Connection timed out\r\n')
        flush()
      }, timeoutMs)
    }
  }

  #open(shard: number, flush: () => void, end: () => void): Upstream {
    const socket = connect({ port: this.shards[shard]?.port as number, host: '127.0.0.1', noDelay: true })
    const upstream: Upstream = { socket, owed: [], unread: Buffer.alloc(0) }
    socket.on('error', end).on('close', end)
    socket.on('data', (bytes) => {
      upstream.unread = Buffer.concat([upstream.unread, bytes as Buffer])
      for (let length = lengthOf(upstream.unread); length !== undefined; length = lengthOf(upstream.unread)) {
        const reply = upstream.owed.shift() as PendingReply
        clearTimeout(reply.timer)
        // A reply that comes after the timeout is dropped.
        reply.bytes ??= Buffer.from(upstream.unread.subarray(0, length))
        upstream.unread = upstream.unread.subarray(length)
      }
      flush()
    })
    return upstream
  }

  #shardOf(key: string): number {
    const tag = this.options.hashTags ? /\{([^}]+)\}/.exec(key)?.[1] : undefined
    const digest = createHash('sha1')
      .update(tag ?? key)
      .digest()
    return digest.readUInt32BE() % this.shards.length
  }
}

/** The length of the first value in RESP, or `undefined` if it is not complete. */
function lengthOf(bytes: Buffer, from = 0): number | undefined {
  const end = bytes.indexOf('\r\n', from)
  if (end < 0) {
    return undefined
  }
  const [kind, next] = [String.fromCharCode(bytes[from] as number), end + 2]
  const count = Number(bytes.toString('latin1', from + 1, end))
  if (kind === '$') {
    const length = count < 0 ? next : next + count + 2
    return length <= bytes.length ? length : undefined
  }
  let position: number | undefined = next
  for (let index = 0; kind === '*' && index < count && position !== undefined; index++) {
    position = lengthOf(bytes, position)
  }
  return position
}

/** The words of a command. Those that are not text are not read. */
function wordsOf(command: Buffer): string[] {
  const words: string[] = []
  let position = command.indexOf('\r\n') + 2
  while (position < command.length && words.length < 5) {
    const start = command.indexOf('\r\n', position) + 2
    const length = Number(command.toString('latin1', position + 1, start - 2))
    words.push(command.toString('utf8', start, start + length))
    position = start + length + 2
  }
  return words
}
