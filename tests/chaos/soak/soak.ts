import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisServer } from '../../../__tests__/servers/redis-server.js'
import { LawCheck, type Units } from './checked.js'
import { FaultRun } from './faults.js'
import type { Task } from './process.js'
import { randomOf } from './random.js'
import { callsOf, type Recorded, type SoakRecord, sum } from './record.js'
import type { Report, Sample } from './sample.js'
import { cluster, sentinel, single } from './targets.js'

/** The settings of a soak. */
export interface SoakSettings {
  readonly seed: number
  readonly leaks: boolean
  readonly onLine: (line: string) => void
  /** Ends the soak before its time. */
  readonly signal: AbortSignal
}

/** Processes that share the keys of the one under observation. */
const PEERS = 2

/** The mean time between two kills of a peer, in milliseconds. */
const PEER_LIFE_MS = 60_000

/** A process that has not ended by itself after this time hangs, in milliseconds. */
const END_MS = 30_000

/** The number of samples for each printed line. */
const SAMPLES_PER_LINE = 6

/** The embedded store loses no counts: its trace is checked each minute. */
const MEMORY_CHECK_MS = 60_000

const MIB = 2 ** 20

/** Servers, processes that use them, and faults. */
export class Soak {
  readonly #settings: SoakSettings
  readonly #runs: readonly FaultRun[]
  readonly #memory = new LawCheck()
  readonly #violations: string[] = []
  readonly #samples: Recorded[] = []
  readonly #errors: Record<string, number> = {}
  /** Errors of the observed process since the last sample. */
  #recent: Record<string, number> = {}
  readonly #started = Date.now()
  #calls = 0

  private constructor(settings: SoakSettings, runs: (onViolation: (text: string) => void) => readonly FaultRun[]) {
    this.#settings = settings
    this.#runs = runs((text) => this.#violate(text))
  }

  /** Starts the servers. */
  static async start(settings: SoakSettings): Promise<Soak> {
    settings.onLine('starting the servers')
    const targets = await Promise.all([single(), sentinel(), cluster()])
    return new Soak(settings, (onViolation) =>
      targets.map((target, index) => new FaultRun(target, randomOf(settings.seed + index), onViolation)),
    )
  }

  /** Runs for a time, stops everything, and returns the record. */
  async run(ms: number): Promise<Omit<SoakRecord, 'growths'>> {
    const { seed, leaks, signal } = this.#settings
    // A failure of one part ends all.
    const failed = new AbortController()
    const end = AbortSignal.any([AbortSignal.timeout(ms), signal, failed.signal])
    let seconds = 0
    end.addEventListener('abort', () => {
      seconds = this.#secondsUntil(Date.now())
    })
    const observed = this.#fork('observed', seed, leaks)
    const peers = Array.from({ length: PEERS }, (_, index) => this.#peer(index, end))
    try {
      await Promise.all([
        ...this.#runs.map((run) => run.run(end)),
        this.#checkMemory(end),
        ...peers,
        Promise.race([once(end, 'abort'), observed.ended.then(() => failed.abort())]),
      ])
      await observed.stop()
      for (const run of this.#runs) {
        run.end()
      }
      this.#checkLaw()
    } finally {
      failed.abort()
      await Promise.allSettled(peers)
      observed.child.kill('SIGKILL')
      await Promise.all(this.#runs.map(({ target }) => target.stop()))
    }
    const faults = this.#runs.flatMap(({ injected }) => injected)
    return {
      node: process.version,
      seed,
      seconds,
      calls: this.#calls,
      units: [...this.#runs.map(({ law }) => law), this.#memory].reduce((total, { checked }) => total + checked, 0),
      errors: this.#errors,
      violations: this.#violations,
      faults: faults
        .map((fault) => ({ ...fault, from: this.#secondsUntil(fault.from), to: this.#secondsUntil(fault.to) }))
        .sort((a, b) => a.from - b.from),
      samples: this.#samples,
    }
  }

  /** Seconds from the start until a time in epoch milliseconds. */
  #secondsUntil(time: number): number {
    return Math.round((time - this.#started) / 1_000)
  }

  #violate(violation: string): void {
    const seconds = this.#secondsUntil(Date.now())
    this.#violations.push(`${seconds} s: ${violation}`)
    this.#settings.onLine(`! ${seconds} s: ${violation}`)
  }

  /** Keeps one peer running. Now and then it is killed, with its leases, permits and reservations. */
  async #peer(index: number, end: AbortSignal): Promise<void> {
    const random = randomOf(this.#settings.seed + 100 + index)
    for (let life = 0; !end.aborted; life++) {
      const peer = this.#fork('peer', this.#settings.seed + 1_000 * (index + 1) + life, false)
      await sleep(PEER_LIFE_MS * (0.5 + random()), undefined, { signal: end }).catch(() => {})
      if (end.aborted) {
        await peer.stop()
      } else {
        peer.kill()
        await peer.ended
      }
    }
  }

  #fork(role: Task['role'], seed: number, leaks: boolean) {
    const stores = Object.fromEntries(this.#runs.map(({ target: { name, options } }) => [name, options]))
    const task: Task = { role, seed, stores, leaks }
    const child = fork(join(__dirname, 'process.js'), [JSON.stringify(task)], {
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    })
    child.on('message', (report) => this.#add(role, report as Report))
    const printed = text(child.stderr as NodeJS.ReadableStream)
    let isKilled = false
    const ended = once(child, 'exit').then(async ([code, signal]) => {
      const output = (await printed).trim()
      if (!isKilled && (code !== 0 || output !== '')) {
        this.#violate(`the process (${role}) ended with ${code ?? signal}: ${output}`)
      }
    })
    const kill = () => {
      isKilled = true
      child.kill('SIGKILL')
    }
    return { child, ended, kill, stop: () => this.#stop(child, ended) }
  }

  /** Ends a process: it must exit by itself. */
  async #stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
    if (child.connected) {
      child.send('stop')
    }
    const halt = setTimeout(() => child.kill('SIGABRT'), END_MS)
    await ended
    clearTimeout(halt)
  }

  #add(role: Task['role'], report: Report): void {
    for (const violation of report.violations) {
      this.#violate(`${role}: ${violation}`)
    }
    for (const run of this.#runs) {
      run.add(report.units[run.target.name] ?? {}, report.failures[run.target.name] ?? [])
    }
    const { memory = {} } = report.units
    addUnits(this.#memory, memory)
    addAll(this.#errors, report.errors)
    if (role === 'observed') {
      addAll(this.#recent, report.errors)
      if (report.sample !== undefined) {
        void this.#record(report.sample)
      }
    }
  }

  async #record(sample: Sample): Promise<void> {
    const [at, errors] = [this.#secondsUntil(Date.now()), this.#recent]
    this.#recent = {}
    this.#calls += callsOf(sample)
    const redis = await this.#redis().catch(() => undefined)
    this.#samples.push({ ...sample, at, errors, ...(redis === undefined ? {} : { redis }) })
    if (this.#samples.length % SAMPLES_PER_LINE === 0) {
      const { rss, heap, handles, descriptors, threads, cpu, delay } = sample
      const faults = this.#runs.reduce((total, { injected }) => total + injected.length, 0)
      const process = `rss ${rss.toFixed(1)} heap ${heap.toFixed(1)} handles ${sum(handles)} descriptors ${descriptors}`
      const load = `threads ${threads} cpu ${cpu.toFixed(2)} delay ${delay.max.toFixed()} ms`
      const servers = `redis ${redis?.memory.toFixed(1) ?? '-'} MiB ${redis?.clients ?? '-'} clients`
      this.#settings.onLine(`${at} s: ${process} ${load}; ${servers}; ${this.#calls} calls, ${faults} faults`)
    }
  }

  /** Memory and clients of all servers with data. */
  async #redis(): Promise<Recorded['redis']> {
    const servers = this.#runs.flatMap(({ target }) => target.servers)
    if (servers.some(({ pid, isFrozen }) => pid === undefined || isFrozen)) {
      return undefined
    }
    const all = await Promise.all(servers.map(usage))
    const total = (field: 'memory' | 'clients') => all.reduce((result, one) => result + one[field], 0)
    return { memory: total('memory') / MIB, clients: total('clients') }
  }

  async #checkMemory(end: AbortSignal): Promise<void> {
    while (!end.aborted) {
      await sleep(MEMORY_CHECK_MS, undefined, { signal: end }).catch(() => {})
      // The units of the last seconds may not have been reported.
      const at = Date.now() - 5_000
      this.#checkLaw({ from: at, to: at, losses: 0, overlapMs: 0 })
    }
  }

  #checkLaw(next?: Parameters<LawCheck['check']>[0]): void {
    for (const violation of this.#memory.check(next)) {
      this.#violate(`memory: ${violation}`)
    }
  }
}

async function usage(server: RedisServer): Promise<{ memory: number; clients: number }> {
  const info = await server.command<string>('INFO')
  const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1])
  return { memory: field('used_memory'), clients: field('connected_clients') }
}

function addUnits(law: LawCheck, units: Units): void {
  for (const [name, times] of Object.entries(units)) {
    law.add(name as Parameters<LawCheck['add']>[0], times)
  }
}

function addAll(total: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) {
    total[name] = (total[name] ?? 0) + count
  }
}
