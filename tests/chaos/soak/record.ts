/** The record of a soak: its samples, and the result. */
import type { Injected } from './faults.js'
import type { Growth, Point } from './flatness.js'
import type { Sample } from './sample.js'

/** A sample with the state of the servers. */
export interface Recorded extends Sample {
  /** Seconds since the start. */
  readonly at: number
  /** Failed calls by code since the last sample. */
  readonly errors: Readonly<Record<string, number>>
  /** Of all servers with data; absent while one of them is away. Memory is in MiB. */
  readonly redis?: { readonly memory: number; readonly clients: number }
}

/** The whole record, as it is written. */
export interface SoakRecord {
  readonly node: string
  readonly seed: number
  readonly seconds: number
  readonly calls: number
  /** Units that were compared with a law. */
  readonly units: number
  readonly errors: Readonly<Record<string, number>>
  readonly growths: readonly Growth[]
  readonly violations: readonly string[]
  /** The faults, with times in seconds since the start. */
  readonly faults: readonly Injected[]
  readonly samples: readonly Recorded[]
}

/** The values of each resource that has a bound. */
export function pointsOf(samples: readonly Recorded[]): Record<string, Point[]> {
  const of = (value: (sample: Recorded) => number | undefined): Point[] =>
    samples.flatMap((sample) => {
      const one = value(sample)
      return one === undefined ? [] : [[sample.at, one] as const]
    })
  return {
    rss: of(({ rss }) => rss),
    heap: of(({ heap }) => heap),
    external: of(({ external }) => external),
    handles: of(({ handles }) => sum(handles)),
    descriptors: of(({ descriptors }) => descriptors),
    threads: of(({ threads }) => threads),
    redisMemory: of(({ redis }) => redis?.memory),
    redisClients: of(({ redis }) => redis?.clients),
  }
}

/** The number of calls in a sample. */
export function callsOf({ durations }: Sample): number {
  return Object.values(durations).reduce((total, [count]) => total + count, 0)
}

export function sum(values: Readonly<Record<string, number>>): number {
  return Object.values(values).reduce((total, value) => total + value, 0)
}
