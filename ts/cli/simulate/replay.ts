import type { Readable } from 'node:stream'
import type { NamedPolicy } from '../policies.js'
import { blocksOf } from './log/chunks.js'
import type { KeySpec } from './log/key.js'
import { KeyTable } from './log/key-table.js'
import { Line, type LogFormat } from './log/line.js'
import { Order } from './log/reorder-buffer.js'
import { Judge, type Kinds } from './replay-limiter.js'
import type { Tally } from './tally.js'
import { Timeline } from './timeline.js'

/** A log, and how it is to be read. */
export interface Log {
  readonly files: readonly string[]
  readonly stdin: Readable
  readonly format: LogFormat
  readonly timeField: string | undefined
  /** What the key of each kind is: the first of all requests, the others of policies' subjects. */
  readonly keys: readonly KeySpec[]
  /** The kind by which a subject counts. */
  readonly kindOf: (subject: string | undefined) => number
  readonly cost: KeySpec | undefined
  /** How far a line may be behind the newest and still be put in order: milliseconds. */
  readonly window: number
}

/** A line, by its file and its number there, from 1 on. */
export interface Place {
  readonly file: string
  readonly line: number
}

/** What the lines of a log were. */
export interface Reading {
  lines: number
  /** Lines with a time. */
  requests: number
  broken: number
  /** The first of the broken lines. */
  readonly firstBroken: (Place & { readonly reason: string })[]
  /** Requests whose cost could not be read: they were counted as 1. */
  withoutCost: number
  firstLate: Place | undefined
  /** The times of the first and the last request, in their order; `NaN` if there is none. */
  from: number
  to: number
}

/** What came of a replay. */
export interface Replay {
  readonly reading: Reading
  readonly order: Order
  readonly tables: readonly KeyTable[]
  readonly timeline: Timeline
}

const MOST_BROKEN_TOLD = 10

/**
 * Replays a log through policies, each with a limiter of its own.
 *
 * @param progress - Called with bytes of the file that have been read.
 */
export async function replay(
  log: Log,
  policies: readonly (readonly [policy: NamedPolicy, tally: Tally])[],
  progress: (bytes: number) => void,
): Promise<Replay> {
  const tables = log.keys.map((spec) => new KeyTable(spec))
  const kinds: Kinds = { tables, kindOf: log.kindOf }
  const judges = policies.map(([policy, tally]) => new Judge(policy, kinds, tally))
  const timeline = new Timeline(1 + judges.length)
  const reading: Reading = {
    lines: 0,
    requests: 0,
    broken: 0,
    firstBroken: [],
    withoutCost: 0,
    firstLate: undefined,
    from: Number.NaN,
    to: Number.NaN,
  }
  const order = new Order(log.window, tables.length, (time, cost, keys, start) => {
    if (Number.isNaN(reading.from)) {
      reading.from = time
    }
    reading.to = time
    timeline.count(0, time)
    for (let index = 0; index < judges.length; index++) {
      if ((judges[index] as Judge).take(time, cost, keys, start)) {
        timeline.count(index + 1, time)
      }
    }
  })
  const reader = new LogReader(log, tables, order, reading)
  for (const file of log.files) {
    for await (const block of blocksOf(file, log.stdin)) {
      reader.read(file, block.text, block.isAscii)
      progress(block.bytes)
    }
    reader.endFile()
  }
  order.end()
  await Promise.all(judges.map((judge) => judge.close()))
  return { reading, order, tables, timeline }
}

const RETURN = 13

/** The last time that the engine counts with: 2^52 microseconds, in the year 2112. */
const LAST_TIME_MS = 2 ** 52 / 1_000

/** Makes requests of lines. */
class LogReader {
  readonly #line: Line
  readonly #keys: Uint32Array
  #number = 0

  constructor(
    readonly log: Log,
    readonly tables: readonly KeyTable[],
    readonly order: Order,
    readonly reading: Reading,
  ) {
    this.#line = new Line(log.format, log.timeField)
    this.#keys = new Uint32Array(tables.length)
  }

  /** Reads the lines of a block. */
  read(file: string, text: string, isAscii: boolean): void {
    let start = 0
    while (start < text.length) {
      let end = text.indexOf('\n', start)
      end = end < 0 ? text.length : end
      const next = end + 1
      end = end > start && text.charCodeAt(end - 1) === RETURN ? end - 1 : end
      this.#number++
      if (end > start) {
        this.#read(file, text, start, end, isAscii)
      }
      start = next
    }
  }

  endFile(): void {
    this.#number = 0
  }

  #read(file: string, text: string, start: number, end: number, isAscii: boolean): void {
    const { reading, tables } = this
    const line = this.#line
    reading.lines++
    if (!line.read(text, start, end, isAscii)) {
      this.#broken(file, line.reason)
      return
    }
    if (line.time > LAST_TIME_MS) {
      this.#broken(file, 'a time after the year 2112')
      return
    }
    reading.requests++
    for (let kind = 0; kind < tables.length; kind++) {
      const table = tables[kind] as KeyTable
      const key = table.of(line)
      table.requests[key] = (table.requests[key] as number) + 1
      this.#keys[kind] = key
    }
    const cost = this.log.cost === undefined ? 1 : this.#costOf(this.log.cost)
    if (!this.order.add(line.time, cost, this.#keys)) {
      reading.firstLate ??= { file, line: this.#number }
    }
  }

  /** Whole units, at least one. */
  #costOf(spec: KeySpec): number {
    const cost = Math.max(1, Math.ceil(Number(spec.read(this.#line) ?? Number.NaN)))
    if (Number.isSafeInteger(cost)) {
      return cost
    }
    this.reading.withoutCost++
    return 1
  }

  #broken(file: string, reason: string): void {
    this.reading.broken++
    if (this.reading.firstBroken.length < MOST_BROKEN_TOLD) {
      this.reading.firstBroken.push({ file, line: this.#number, reason })
    }
  }
}
