/** A master and its replica, which execute the scripts of the package. */
import { digestOf, ServerKeys } from './addon.mjs'

/** The time of the servers at the start of a run, in microseconds since the epoch. */
export const EPOCH_US = 1_790_000_000_000_000

/** One server. Times are in microseconds of the virtual time. */
class Server {
  keys = new ServerKeys()
  scripts = new Set()
  isAlive = true
  isReplica
  /** Counts the starts. A connection to an earlier start has ended. */
  generation = 0
  /** Nothing arrives from clients or at clients until then. */
  unreachableUntil = 0
  /** Executes nothing until then. */
  frozenUntil = 0
  loadingUntil = 0
  busyUntil = 0
  fullUntil = 0

  constructor(isReplica) {
    this.isReplica = isReplica
  }
}

/** The servers of a run. */
export class Servers {
  all = [new Server(false), new Server(true)]
  /** The index of the server that clients connect to. */
  master = 0
  /** How often a server lost keys. */
  losses = 0
  /** The time of the last loss. */
  lostAt = Number.NEGATIVE_INFINITY
  #time
  /** The servers' clock runs this much faster than the clients'. */
  #drift

  constructor(time, drift) {
    this.#time = time
    this.#drift = drift
  }

  /** The time of the servers, in microseconds since the epoch. */
  get epochUs() {
    return EPOCH_US + Math.round(this.#time.micros * (1 + this.#drift))
  }

  /** Whether a server answers, if only with an error. */
  isSilent(index) {
    const server = this.all[index]
    const { micros } = this.#time
    return !server.isAlive || micros < server.unreachableUntil || micros < server.frozenUntil
  }

  /** Whether a server decides calls. */
  isReady(index) {
    const server = this.all[index]
    const { micros } = this.#time
    return !(this.isSilent(index) || micros < server.loadingUntil || micros < server.busyUntil || server.isReplica)
  }

  /**
   * Executes a command.
   *
   * @returns The reply or the server's error, the keys that changed, and the code with which it refuses to
   * write.
   */
  execute(index, [name, text, count, ...words]) {
    const server = this.all[index]
    const { micros } = this.#time
    if (micros < server.loadingUntil) {
      return { error: 'LOADING Redis is loading the dataset in memory', changed: [] }
    }
    if (micros < server.busyUntil) {
      return { error: 'BUSY Redis is busy running a script.', changed: [] }
    }
    const digest = name === 'EVAL' ? digestOf(text) : text
    if (name === 'EVAL') {
      server.scripts.add(digest)
    } else if (!server.scripts.has(digest)) {
      return { error: 'NOSCRIPT No matching script. Please use EVAL.', changed: [] }
    }
    const refusal = server.isReplica ? 'READONLY' : micros < server.fullUntil ? 'OOM' : undefined
    const keys = words.slice(0, Number(count))
    try {
      return { ...server.keys.run(digest, keys, words.slice(Number(count)), this.epochUs, refusal), refusal }
    } catch (error) {
      return { error: error.message, changed: [], refusal }
    }
  }

  start(index, keepsKeys, loadingMicros) {
    const server = this.all[index]
    server.isAlive = true
    server.scripts.clear()
    server.loadingUntil = this.#time.micros + loadingMicros
    if (!keepsKeys) {
      server.keys = new ServerKeys()
      this.recordLoss()
    }
  }

  kill(index) {
    this.all[index].isAlive = false
    this.all[index].generation++
  }

  /** Copies the keys of the master to its replica. */
  replicate() {
    const [master, replica] = [this.all[this.master], this.all[1 - this.master]]
    if (replica.isReplica) {
      replica.keys = master.keys.copy()
    }
  }

  /** Makes the replica the master. The old master does not know it yet. */
  promote() {
    this.master = 1 - this.master
    this.all[this.master].isReplica = false
    this.recordLoss()
  }

  /** Makes the old master a replica. */
  demote() {
    const replica = this.all[1 - this.master]
    if (!replica.isReplica) {
      replica.isReplica = true
      this.recordLoss()
    }
    this.replicate()
  }

  recordLoss() {
    this.losses++
    this.lostAt = this.#time.micros
  }

  /** Ends all faults. */
  heal() {
    this.demote()
    for (const [index, server] of this.all.entries()) {
      if (!server.isAlive) {
        this.start(index, true, 0)
      }
      const until = ['unreachableUntil', 'frozenUntil', 'loadingUntil', 'busyUntil', 'fullUntil']
      for (const name of until) {
        server[name] = Math.min(server[name], this.#time.micros)
      }
    }
  }
}
