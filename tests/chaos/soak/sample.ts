import { readdirSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { CallReport, Durations } from './calls.js'
import type { Units } from './checked.js'

/** The resources of the process under observation at one moment. Memory is in MiB. */
export interface Sample {
  /** Resident memory, before a collection. */
  readonly rss: number
  /** In use by JavaScript, after a collection. */
  readonly heap: number
  readonly external: number
  /** Handles and requests of libuv, by type. */
  readonly handles: Readonly<Record<string, number>>
  readonly descriptors: number
  readonly threads: number
  /** Of the event loop, in milliseconds. */
  readonly delay: { readonly p99: number; readonly max: number }
  /** The processor time since the last sample, as a part of one core. */
  readonly cpu: number
  readonly durations: Readonly<Record<string, Durations>>
}

/** A message of a process to the command. */
export interface Report extends CallReport {
  /** The admitted units of the checked limiters, by target. */
  readonly units: Readonly<Record<string, Units>>
  readonly sample?: Sample
}

const MIB = 2 ** 20

/** The resolution of the event loop's delay, in milliseconds. */
const RESOLUTION_MS = 10

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Takes samples of this process. Reads Linux's /proc. */
export class Sampler {
  readonly #delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  #cpu = process.cpuUsage()
  #at = performance.now()

  constructor() {
    this.#delay.enable()
  }

  take(durations: Readonly<Record<string, Durations>>): Sample {
    const { rss } = process.memoryUsage()
    const { user, system } = process.cpuUsage(this.#cpu)
    const cpu = (user + system) / 1_000 / (performance.now() - this.#at)
    const ms = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS)
    const delay = { p99: ms(this.#delay.percentile(99)), max: ms(this.#delay.max) }
    const handles: Record<string, number> = {}
    for (const type of process.getActiveResourcesInfo()) {
      handles[type] = (handles[type] ?? 0) + 1
    }
    collectGarbage()
    const { heapUsed, external } = process.memoryUsage()
    const [descriptors, threads] = ['/proc/self/fd', '/proc/self/task'].map((path) => readdirSync(path).length)
    this.#cpu = process.cpuUsage()
    this.#at = performance.now()
    this.#delay.reset()
    return {
      rss: rss / MIB,
      heap: heapUsed / MIB,
      external: external / MIB,
      handles,
      descriptors: descriptors as number,
      threads: threads as number,
      delay,
      cpu,
      durations,
    }
  }

  stop(): void {
    this.#delay.disable()
  }
}
