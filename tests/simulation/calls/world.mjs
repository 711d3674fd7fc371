/** The servers, the network and the clock of a run, what happened, and the faults. */
import { createHash } from 'node:crypto'
import { EPOCH_US, Servers } from './servers.mjs'
import { VirtualTime } from './virtual-time.mjs'

export class World {
  time = new VirtualTime()
  servers
  connections = new Set()
  /** All attempts of clients, in order. */
  attempts = []
  violations = []
  /** Decides the delays, and what is lost. */
  network
  /** Whether connections break often. */
  isLossy = false
  /** The times at which all processes stood still. */
  pauses = []
  #delays
  #prints
  #hash = createHash('sha1')
  #events = 0
  #clockOffsetMs = 0

  constructor(scenario, random, prints) {
    this.servers = new Servers(this.time, scenario.drift)
    this.network = random.fork()
    this.#delays = scenario.delays
    this.#prints = prints
  }

  /** The delay of one direction, in microseconds. */
  delay() {
    const { minMicros, jitterMicros } = this.#delays
    return minMicros + this.network.whole(0, jitterMicros)
  }

  /** The time of the day in the processes. */
  dateNow = () => Math.floor(EPOCH_US / 1_000 + this.time.now() + this.#clockOffsetMs)

  /** The number of the next event. */
  nextEvent() {
    return ++this.#events
  }

  trace(event) {
    this.#hash.update(`${this.time.micros} ${event}\n`)
    if (this.#prints) {
      console.log(`${this.time.now().toFixed(3).padStart(10)} ms  ${event}`)
    }
  }

  /** Records that an invariant does not hold. */
  violate(text) {
    this.violations.push(`${this.time.now().toFixed(3)} ms: ${text}`)
    this.trace(`VIOLATION: ${text}`)
  }

  get digest() {
    return this.#hash.copy().digest('hex')
  }

  /** The end of a limit in milliseconds. A call that stood still may send its request after that. */
  afterPauses(fromMs, limitMs) {
    let end = fromMs + limitMs
    for (const pause of this.pauses) {
      if (pause.toMs > fromMs && pause.fromMs <= end) {
        end = Math.max(end, pause.toMs + limitMs)
      }
    }
    return end
  }

  /** Begins a fault. */
  inject({ kind, lastingMs, server: index, keeps, afterMs }, processes) {
    this.trace(`fault ${JSON.stringify({ kind, lastingMs, index, keeps, afterMs })}`)
    const { servers, time } = this
    const server = servers.all[index]
    const until = time.micros + lastingMs * 1_000
    const later = (millis, run) => time.schedule(millis * 1_000, run)
    const set = (name) => {
      server[name] = Math.max(server[name], until)
    }
    switch (kind) {
      case 'cut':
        this.cutSome(index, keeps ? 0.5 : 1)
        break
      case 'lossy':
        this.isLossy = true
        later(lastingMs, () => {
          this.isLossy = false
        })
        break
      case 'partition':
        set('unreachableUntil')
        break
      case 'freeze':
        set('frozenUntil')
        break
      case 'restart':
        servers.kill(index)
        this.cutSome(index, 1)
        later(lastingMs, () => servers.start(index, keeps, afterMs * 200))
        break
      case 'load':
        set('loadingUntil')
        break
      case 'busy':
        set('busyUntil')
        break
      case 'full':
        set('fullUntil')
        break
      case 'flushScripts':
        server.scripts.clear()
        break
      case 'failover':
        this.#failOver(processes, keeps, afterMs, later)
        break
      case 'stepClock':
        this.#clockOffsetMs += (keeps ? 1 : -1) * lastingMs * 10
        break
      case 'pause':
        this.pauses.push({ fromMs: time.now(), toMs: time.now() + lastingMs })
        time.skip(lastingMs * 1_000)
        break
      default:
        // Others go on, so that there is something to check.
        if (processes.length > 1) {
          processes[0].kill()
        }
    }
  }

  /** Cuts the connections to a server: all of them, or some. */
  cutSome(index, probability) {
    for (const connection of [...this.connections]) {
      if (connection.server === index && this.network.chance(probability)) {
        connection.cut()
      }
    }
  }

  #failOver(processes, kills, afterMs, later) {
    const { servers } = this
    if (!servers.all[servers.master].isAlive) {
      return
    }
    const old = servers.master
    if (kills) {
      servers.kill(old)
      this.cutSome(old, 1)
    }
    later(afterMs, () => {
      if (servers.master !== old) {
        return
      }
      servers.promote()
      this.trace('promoted')
      processes.forEach((process, number) => {
        later(20 * number + afterMs / 2, () => process.network.followMaster())
      })
      later(afterMs, () => {
        if (!servers.all[old].isAlive) {
          servers.start(old, true, 0)
        }
        if (servers.master !== old) {
          servers.demote()
        }
      })
    })
  }

  heal() {
    this.isLossy = false
    this.servers.heal()
  }
}
