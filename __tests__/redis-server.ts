import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A real Redis server of one's own, on a free port of this machine. */
export class RedisServer {
  #process: ChildProcess | undefined
  #folder: string | undefined

  private constructor(readonly port: number) {}

  /** Starts a server. */
  static async start(): Promise<RedisServer> {
    const server = await RedisServer.reserve()
    await server.begin()
    return server
  }

  /** A server that is yet to begin: its port is free, and nobody answers there. */
  static async reserve(): Promise<RedisServer> {
    const listener = createServer().listen(0, '127.0.0.1')
    await once(listener, 'listening')
    const { port } = listener.address() as { port: number }
    listener.close()
    await once(listener, 'close')
    return new RedisServer(port)
  }

  get url(): `redis://${string}` {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Begins, or begins again, empty. */
  async begin(): Promise<void> {
    this.#folder ??= await mkdtemp(join(tmpdir(), 'tollgate-redis-'))
    const words = [
      '--port',
      `${this.port}`,
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      this.#folder,
    ]
    this.#process = spawn('redis-server', words, { stdio: 'ignore' })
    const failed = once(this.#process, 'error').then(([error]) => {
      throw new Error(`redis-server must be installed (Debian: apt-get install redis-server): ${error}`)
    })
    await Promise.race([failed, this.#answers()])
  }

  /** Kills the server at once. */
  async kill(): Promise<void> {
    const server = this.#process
    this.#process = undefined
    if (server !== undefined && server.exitCode === null) {
      server.kill('SIGKILL')
      await once(server, 'exit')
    }
  }

  /** Freezes the server: connections stay, and nobody answers. */
  freeze(): void {
    this.#process?.kill('SIGSTOP')
  }

  /** Thaws it. */
  thaw(): void {
    this.#process?.kill('SIGCONT')
  }

  /** Ends the server, and removes its folder. */
  async stop(): Promise<void> {
    await this.kill()
    if (this.#folder !== undefined) {
      await rm(this.#folder, { recursive: true, force: true })
    }
  }

  /** Runs one command by the inline protocol, and gives the first bytes of the reply. */
  async command(...words: string[]): Promise<string> {
    const socket = connect(this.port, '127.0.0.1')
    try {
      await once(socket, 'connect')
      const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`)
      socket.write(`*${words.length}\r\n${parts.join('')}`)
      const [reply] = await once(socket, 'data')
      return String(reply)
    } finally {
      socket.destroy()
    }
  }

  async #answers(): Promise<void> {
    const deadline = Date.now() + 10_000
    for (;;) {
      const reply = await this.command('PING').catch(() => '')
      if (reply.startsWith('+PONG')) {
        return
      }
      if (Date.now() > deadline) {
        throw new Error(`redis-server does not answer on port ${this.port}`)
      }
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
}
