/** Connections of clients to the servers, in virtual time. */

const REFUSED = 'ECONNREFUSED'
const RESET = 'ECONNRESET'

/**
 * One connection: commands and replies arrive in order, or not at all once it is cut.
 *
 * @typedef {object} Attempt A command that a client sent.
 * @property {number} process
 * @property {readonly string[]} keys
 * @property {number} sent The number of the event at which the client got it.
 * @property {number} [executed] That at which a server executed or refused it.
 * @property {string} [error] The server's error.
 * @property {string} [refusal] The code with which the server refused to write.
 * @property {readonly string[]} [changed] The keys that it changed.
 * @property {number} [delivered] That at which the client got the reply.
 * @property {number} [deliveredMs] The time of that event.
 */
class Connection {
  isOpen = true
  #world
  #index
  #generation
  #isConnected = false
  #requests = new Set()
  #arrival = 0
  #replyArrival = 0

  /** @param isKept Whether the client keeps such connections, so that it connects in no time. */
  constructor(world, isKept) {
    this.#world = world
    this.#index = world.servers.master
    const server = world.servers.all[this.#index]
    this.#generation = server.generation
    const delay = isKept ? 1 : world.delay() + world.delay()
    world.time.schedule(Math.max(delay, server.unreachableUntil - world.time.micros), () => this.#connect())
    world.connections.add(this)
  }

  get server() {
    return this.#index
  }

  /** Sends a command. Rejects with a client's error, or with the server's. */
  send(command, attempt) {
    return new Promise((resolve, reject) => {
      const request = { command, attempt, resolve, reject, wasReceived: false }
      this.#requests.add(request)
      if (this.#isConnected) {
        this.#transmit(request)
      }
    })
  }

  /** Breaks the connection: what is under way is lost. A server that has got a command executes it. */
  cut() {
    this.isOpen = false
    this.#world.connections.delete(this)
    const code = this.#isConnected ? RESET : REFUSED
    for (const { reject } of this.#requests) {
      reject(Object.assign(new Error(`the connection failed: ${code}`), { code }))
    }
    this.#requests.clear()
  }

  #connect() {
    const server = this.#world.servers.all[this.#index]
    if (!this.isOpen) {
      return
    }
    if (!server.isAlive || server.generation !== this.#generation) {
      this.cut()
      return
    }
    this.#isConnected = true
    for (const request of this.#requests) {
      this.#transmit(request)
    }
  }

  #transmit(request) {
    this.#arrival = this.#after(this.#arrival)
    this.#at(this.#arrival, () => this.#receive(request))
  }

  #receive(request) {
    const world = this.#world
    const server = world.servers.all[this.#index]
    if ((!this.isOpen && !request.wasReceived) || server.generation !== this.#generation || !server.isAlive) {
      this.cut()
      return
    }
    const waitsUntil = Math.max(request.wasReceived ? 0 : server.unreachableUntil, server.frozenUntil)
    if (waitsUntil > world.time.micros) {
      // Bytes on a network that is partitioned are not at the server yet.
      request.wasReceived ||= server.unreachableUntil <= world.time.micros
      this.#arrival = Math.max(this.#arrival, waitsUntil)
      this.#at(waitsUntil, () => this.#receive(request))
      return
    }
    if (world.isLossy && world.network.chance(0.2)) {
      this.cut()
      return
    }
    const { reply, error, changed, refusal } = world.servers.execute(this.#index, request.command)
    Object.assign(request.attempt, { executed: world.nextEvent(), error, changed, refusal })
    world.trace(`server ${this.#index}: ${request.attempt.keys.join(' ')}: ${error ?? 'ok'}`)
    if (world.isLossy && world.network.chance(0.2)) {
      this.cut()
      return
    }
    this.#replyArrival = this.#after(this.#replyArrival)
    this.#at(this.#replyArrival, () => this.#deliver(request, reply, error))
  }

  #deliver(request, reply, error) {
    const world = this.#world
    const { unreachableUntil } = world.servers.all[this.#index]
    if (!this.isOpen) {
      return
    }
    if (unreachableUntil > world.time.micros) {
      this.#replyArrival = Math.max(this.#replyArrival, unreachableUntil)
      this.#at(unreachableUntil, () => this.#deliver(request, reply, error))
      return
    }
    Object.assign(request.attempt, { delivered: world.nextEvent(), deliveredMs: world.time.now() })
    this.#requests.delete(request)
    if (error === undefined) {
      request.resolve(reply)
    } else {
      request.reject(new Error(error))
    }
  }

  /** The time after a delay, and not before an earlier one. */
  #after(earlier) {
    return Math.max(this.#world.time.micros + this.#world.delay(), earlier)
  }

  #at(micros, run) {
    this.#world.time.schedule(micros - this.#world.time.micros, run)
  }
}

/** The clients of one process. */
export class ProcessNetwork {
  #world
  #process
  #connection
  #isKilled = false
  #silentSince

  constructor(world, process) {
    this.#world = world
    this.#process = process
  }

  /** A client with one connection, which connects anew for the next command after it was cut. */
  get orderedClient() {
    return (command) => {
      if (this.#isKilled) {
        return new Promise(() => {})
      }
      if (this.#connection === undefined || !this.#connection.isOpen) {
        this.#connection = new Connection(this.#world, false)
      }
      return this.#connection.send(command, this.#attempt(command))
    }
  }

  /** A client with a connection for each request, such as one over HTTP. */
  get requestClient() {
    const run = async (name, text, keys, args) => {
      if (this.#isKilled) {
        return new Promise(() => {})
      }
      const command = [name, text, String(keys.length), ...keys, ...args]
      const connection = new Connection(this.#world, true)
      try {
        return await connection.send(command, this.#attempt(command))
      } catch (error) {
        const { message, code } = error
        throw code === undefined
          ? new Error(`${message}, command was: ["evalsha"]`)
          : Object.assign(new TypeError('fetch failed'), { cause: { code } })
      } finally {
        connection.isOpen = false
        this.#world.connections.delete(connection)
      }
    }
    return {
      eval: (source, keys, args) => run('EVAL', source, keys, args),
      evalsha: (digest, keys, args) => run('EVALSHA', digest, keys, args),
    }
  }

  /** Ends the connection if it is to a server that is not the master. */
  followMaster() {
    if (this.#connection?.isOpen && this.#connection.server !== this.#world.servers.master) {
      this.#connection.cut()
    }
  }

  /** The process is killed: it never hears of a server again. */
  kill() {
    this.#isKilled = true
    this.#connection?.cut()
  }

  /** How long the server has been silent, by what the calls of this process found. */
  get silentMs() {
    const { servers, time } = this.#world
    const index = this.#connection?.isOpen ? this.#connection.server : servers.master
    if (!servers.isSilent(index)) {
      this.#silentSince = undefined
      return 0
    }
    this.#silentSince ??= time.now()
    return time.now() - this.#silentSince
  }

  #attempt([, , count, ...words]) {
    const keys = words.slice(0, Number(count))
    const attempt = { process: this.#process, keys, sent: this.#world.nextEvent() }
    this.#world.attempts.push(attempt)
    return attempt
  }
}
