import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CertifiedKey } from './certificates.js'
import { type Credentials, execute, subscribe } from './command.js'
import { DrivenClock } from './driven-clock.js'
import { FakeTime } from './fake-time.js'
import { freePort } from './ports.js'
import { newFolder, recordServer, removeFolder } from './run-folder.js'
import { HAS_NO_TLS, type ServerTls, TlsTerminator, tlsFiles, tlsLines } from './server-tls.js'

const { TOLLGATE_REDIS_SERVER } = process.env

/** The server's program. `npm run test:servers` sets one version after another. */
export const REDIS_SERVER = TOLLGATE_REDIS_SERVER || 'redis-server'

/** The time limit for a start. */
const BEGIN_MS = 15_000

/** Options of a server. By default it persists nothing and has no password. */
export interface RedisServerOptions {
  /**
   * Additional configuration lines, such as `'maxmemory 10mb'`. The last line for a setting wins.
   */
  readonly config?: readonly string[]
  /** Files in the folder in which it runs: their content by name. */
  readonly files?: Readonly<Record<string, string>>
  /** The user of {@link RedisServer.command}. */
  readonly credentials?: Credentials
  /** TLS on its port, in place of plain TCP. */
  readonly tls?: ServerTls
  /** With its own clock, which {@link RedisServer.stepClock} sets. */
  readonly hasOwnClock?: boolean
  /**
   * The initial time of a clock that stands still until {@link RedisServer.setTime}, in
   * microseconds since the Unix epoch.
   */
  readonly timeUs?: number
  /** Runs as a sentinel. */
  readonly isSentinel?: boolean
}

/** A private real Redis server, on a free local port. It does not outlive this process. */
export class RedisServer {
  /** The user of {@link command}. To be changed together with the server's passwords. */
  credentials: Credentials
  readonly #options: RedisServerOptions
  readonly #folder: string
  readonly #clock: FakeTime | undefined
  readonly #drivenClock: DrivenClock | undefined
  #process: ChildProcess | undefined
  #terminator: TlsTerminator | undefined
  #isFrozen = false

  private constructor(
    readonly port: number,
    folder: string,
    options: RedisServerOptions,
  ) {
    this.#folder = folder
    this.#options = options
    this.credentials = options.credentials ?? {}
    this.#clock = options.hasOwnClock ? new FakeTime(folder) : undefined
    this.#drivenClock = options.timeUs === undefined ? undefined : new DrivenClock(folder, options.timeUs)
  }

  /** Starts a server. */
  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    const server = await RedisServer.reserve(options)
    try {
      await server.begin()
    } catch (error) {
      await server.stop()
      throw error
    }
    return server
  }

  /** A server that is not started yet: its port is free, and nothing answers. */
  static async reserve(options: RedisServerOptions = {}): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), newFolder('redis'), options)
    await server.#writeFiles()
    return server
  }

  get url(): `redis://${string}` {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Its URL, if it uses TLS, with the default name of its certificate. */
  get tlsUrl(): `rediss://${string}` {
    return `rediss://localhost:${this.port}`
  }

  /** Its unix socket, always without TLS. */
  get socketPath(): string {
    return join(this.#folder, 'socket')
  }

  get isFrozen(): boolean {
    return this.#isFrozen
  }

  /** Its process id, while it runs. */
  get pid(): number | undefined {
    return this.#process?.pid
  }

  /**
   * Starts or restarts the server: with the data in its folder if it keeps an append-only file or a
   * dump, else empty.
   *
   * @param until - `'ready'` to wait until it serves; `'listening'` until it answers anything, for
   *   example that it is loading.
   */
  async begin(until: 'ready' | 'listening' = 'ready'): Promise<void> {
    if (this.#process !== undefined) {
      throw new Error('the server runs already')
    }
    const words = [join(this.#folder, 'redis.conf'), ...(this.#options.isSentinel ? ['--sentinel'] : [])]
    const env = { ...process.env, ...this.#clock?.environment, ...this.#drivenClock?.environment }
    const server = spawn(REDIS_SERVER, words, { stdio: 'ignore', cwd: this.#folder, env })
    this.#process = server
    recordServer(this.#folder, server)
    const gone = () => {
      if (this.#process === server) {
        this.#process = undefined
        this.#isFrozen = false
      }
    }
    server.once('exit', gone).once('error', gone)
    const failed = Promise.race([
      once(server, 'error').then(([error]) => `cannot be run (Debian: apt-get install redis-server): ${error}`),
      once(server, 'exit').then(
        async ([code, signal]) => `ended with ${code ?? signal}: ${await this.#lastLogLines()}`,
      ),
    ]).then((why) => {
      throw new Error(`${REDIS_SERVER} ${why}`)
    })
    // A later exit is no error.
    failed.catch(() => {})
    if (!(await Promise.race([failed, this.#answers(server, until)]))) {
      await failed
    }
    const { tls } = this.#options
    if (tls !== undefined && HAS_NO_TLS) {
      this.#terminator = await TlsTerminator.start(this.port, this.socketPath, tls)
    }
  }

  /** Ends the server with a signal, by default SIGKILL, and waits for its exit. */
  async kill(signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<void> {
    const server = this.#process
    if (server !== undefined) {
      const ended = once(server, 'exit')
      server.kill(signal)
      await ended
    }
    await this.#terminator?.close()
    this.#terminator = undefined
  }

  /** Freezes the server: connections stay, the system accepts more, and nothing answers. */
  freeze(): void {
    this.#isFrozen = this.#process?.kill('SIGSTOP') ?? false
  }

  /** Thaws it. */
  thaw(): void {
    this.#process?.kill('SIGCONT')
    this.#isFrozen = false
  }

  /** Kills the server, and removes its folder. May be called again. */
  async stop(): Promise<void> {
    await this.kill()
    this.#drivenClock?.close()
    await removeFolder(this.#folder)
  }

  /** {@link stop}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Sets the running server's clock a number of seconds ahead of this machine's. */
  async stepClock(seconds: number): Promise<void> {
    if (this.#clock === undefined) {
      throw new Error('the server has no clock of its own: see hasOwnClock')
    }
    // No script may run meanwhile: its keys expire by its start time, but its TIME would return the
    // new time, and its writes would seem expired immediately.
    await this.command('CLIENT', 'PAUSE', 60_000, 'WRITE')
    await this.#clock.set(seconds)
    await this.command('CLIENT', 'UNPAUSE')
  }

  /**
   * Sets the server's clock, in microseconds since the Unix epoch. No script should run meanwhile.
   */
  setTime(micros: number): void {
    if (this.#drivenClock === undefined) {
      throw new Error('the server has no clock that is driven: see timeUs')
    }
    this.#drivenClock.set(micros)
  }

  /**
   * Runs one command on a new connection to the unix socket. Returns the reply: a string, a number,
   * `null` or an array of those. Throws if the reply is an error.
   */
  command<T = unknown>(...words: readonly (string | number)[]): Promise<T> {
    return execute<T>(this.socketPath, this.credentials, words)
  }

  /** Passes the messages of a channel to a function, until the returned function is called. */
  subscribe(channel: string, onMessage: (message: string) => void): Promise<() => void> {
    return subscribe(this.socketPath, this.credentials, channel, onMessage)
  }

  /** One field of `INFO`. */
  async info(field: string): Promise<string | undefined> {
    const text = await this.command<string>('INFO', 'everything')
    return new RegExp(`^${field}:(.*?)\r?$`, 'm').exec(text)?.[1]
  }

  /** Replaces the certificate for new connections, while the server runs. Needs TLS. */
  async present(certified: CertifiedKey): Promise<void> {
    const files = { 'server.crt': certified.certificate, 'server.key': certified.key }
    await Promise.all(Object.entries(files).map(([name, text]) => writeFile(join(this.#folder, name), text)))
    if (this.#terminator !== undefined) {
      this.#terminator.present(certified)
      return
    }
    // A change of any of these settings makes every version read its files again.
    const [, size] = await this.command<[string, string]>('CONFIG', 'GET', 'tls-session-cache-size')
    await this.command('CONFIG', 'SET', 'tls-session-cache-size', Number(size) + 1)
  }

  /** The server's log. */
  async log(): Promise<string> {
    const file = join(this.#folder, 'log')
    return existsSync(file) ? readFile(file, 'utf8') : ''
  }

  async #lastLogLines(): Promise<string> {
    return (await this.log()).split('\n').slice(-6).join('\n').trim()
  }

  /** Writes the files that the server reads from its folder. */
  async #writeFiles(): Promise<void> {
    const { tls, files = {}, config = [], isSentinel = false } = this.#options
    const lines = [
      ...['bind 127.0.0.1', `unixsocket ${this.socketPath}`, `dir ${this.#folder}`],
      `logfile ${join(this.#folder, 'log')}`,
      `port ${tls === undefined ? this.port : 0}`,
      ...(tls === undefined || HAS_NO_TLS ? [] : tlsLines(this.#folder, this.port, tls)),
      ...(isSentinel ? [] : ['save ""', 'appendonly no']),
      ...config,
    ]
    const all = { ...files, ...(tls && tlsFiles(tls)), 'redis.conf': `${lines.join('\n')}\n` }
    const written = Object.entries(all).map(([name, text]) => writeFile(join(this.#folder, name), text))
    await Promise.all([...written, this.#clock?.set(0)])
  }

  /** Waits until the server answers, and returns whether it still runs. */
  async #answers(server: ChildProcess, until: 'ready' | 'listening'): Promise<boolean> {
    const deadline = performance.now() + BEGIN_MS
    while (this.#process === server) {
      const reply = await this.command('PING').catch((error: Error) => error)
      // A reply that denies access is an answer, too.
      const isThere = reply === 'PONG' || (reply instanceof Error && /^(NOAUTH|NOPERM|WRONGPASS)/.test(reply.message))
      const isLoading = reply instanceof Error && reply.message.startsWith('LOADING')
      if (isThere || (isLoading && until === 'listening')) {
        return true
      }
      if (performance.now() > deadline) {
        throw new Error(`${REDIS_SERVER} does not answer (${reply}): ${await this.#lastLogLines()}`)
      }
      await sleep(10)
    }
    return false
  }
}
