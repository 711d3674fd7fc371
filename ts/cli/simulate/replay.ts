import type { Readable } from 'node:stream'
import type { LimiterPolicies } from '../policies.js'
import { chunksOf } from './log/chunks.js'
import type { KeySpec } from './log/key.js'
import { KeyTable } from './log/key-table.js'
import { type LogFormat, LogLine } from './log/line.js'
import { ReorderBuffer } from './log/reorder-buffer.js'
import type { Peaks } from './peaks.js'
import { type KeyKinds, ReplayLimiter } from './replay-limiter.js'
import type { RefusalTally } from './tally.js'
import { Timeline } from './timeline.js'

export interface AccessLog {
  readonly files: readonly string[]
  readonly stdin: Readable
  readonly format: LogFormat
  readonly timeField: string | undefined
  /** The key of each kind: the first belongs to policies without `per`, the others to key dimensions. */
  readonly keys: readonly KeySpec[]
  readonly kindOf: (dimension: string | undefined) => number
  readonly cost: KeySpec | undefined
  /** The distance behind the newest line within which a line is sorted, in milliseconds. */
  readonly window: number
}

/** The position of a line: its file, and its number from 1. */
export interface LogPosition {
  readonly file: string
  readonly line: number
}

/** The counts of a log's lines. */
export type LogSummary = ReturnType<typeof emptySummary>

function emptySummary() {
  return {
    lines: 0,
    /** Lines with a time. */
    requests: 0,
    broken: 0,
    firstBroken: [] as (LogPosition & { readonly reason: string })[],
    /** Requests with an unreadable cost. They count as 1. */
    withoutCost: 0,
    firstLate: undefined as LogPosition | undefined,
    /** The times of the first and the last request in time order; `NaN` if there is none. */
    from: Number.NaN,
    to: Number.NaN,
  }
}

export interface ReplayResult {
  readonly summary: LogSummary
  readonly order: ReorderBuffer
  readonly tables: readonly KeyTable[]
  readonly timeline: Timeline
}

const MAX_REPORTED_BROKEN = 10

/** Replays a log through policies. Each policy has its own limiter. `peaks` count the keys of the first kind. */
export async function replay(
  log: AccessLog,
  policies: readonly (readonly [policy: LimiterPolicies, tally: RefusalTally])[],
  progress: (bytes: number) => void,
  peaks: readonly Peaks[] = [],
): Promise<ReplayResult> {
  const tables = log.keys.map((spec) => new KeyTable(spec))
  const kinds: KeyKinds = { tables, kindOf: log.kindOf }
  const limiters = policies.map(([policy, tally]) => new ReplayLimiter(policy, kinds, tally))
  const timeline = new Timeline(1 + limiters.length)
  const summary = emptySummary()
  const order = new ReorderBuffer(log.window, tables.length, (time, cost, keys, start) => {
    if (Number.isNaN(summary.from)) {
      summary.from = time
    }
    summary.to = time
    timeline.count(0, time)
    for (const peak of peaks) {
      peak.count(time, cost, keys[start] as number)
    }
    for (let index = 0; index < limiters.length; index++) {
      if ((limiters[index] as ReplayLimiter).take(time, cost, keys, start)) {
        timeline.count(index + 1, time)
      }
    }
  })
  const reader = new LogReader(log, tables, order, summary)
  for (const file of log.files) {
    for await (const chunk of chunksOf(file, log.stdin)) {
      reader.read(file, chunk.text, chunk.isAscii)
      progress(chunk.bytes)
    }
    reader.endFile()
  }
  order.end()
  await Promise.all(limiters.map((limiter) => limiter.close()))
  return { summary, order, tables, timeline }
}

const RETURN = 13

/** The last time that the engine supports: 2^52 microseconds, in the year 2112. */
const LAST_TIME_MS = 2 ** 52 / 1_000

class LogReader {
  readonly #line: LogLine
  readonly #keys: Uint32Array
  #number = 0

  constructor(
    readonly log: AccessLog,
    readonly tables: readonly KeyTable[],
    readonly order: ReorderBuffer,
    readonly summary: LogSummary,
  ) {
    this.#line = new LogLine(log.format, log.timeField)
    this.#keys = new Uint32Array(tables.length)
  }

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
    const { summary, tables } = this
    const line = this.#line
    summary.lines++
    if (!line.read(text, start, end, isAscii)) {
      this.#broken(file, line.reason)
      return
    }
    if (line.time > LAST_TIME_MS) {
      this.#broken(file, 'a time after the year 2112')
      return
    }
    summary.requests++
    for (let kind = 0; kind < tables.length; kind++) {
      const table = tables[kind] as KeyTable
      const key = table.of(line)
      table.requests[key] = (table.requests[key] as number) + 1
      this.#keys[kind] = key
    }
    const cost = this.log.cost === undefined ? 1 : this.#costOf(this.log.cost)
    if (!this.order.add(line.time, cost, this.#keys)) {
      summary.firstLate ??= { file, line: this.#number }
    }
  }

  /** The cost as a whole number, at least 1. */
  #costOf(spec: KeySpec): number {
    const cost = Math.max(1, Math.ceil(Number(spec.read(this.#line) ?? Number.NaN)))
    if (Number.isSafeInteger(cost)) {
      return cost
    }
    this.summary.withoutCost++
    return 1
  }

  #broken(file: string, reason: string): void {
    this.summary.broken++
    if (this.summary.firstBroken.length < MAX_REPORTED_BROKEN) {
      this.summary.firstBroken.push({ file, line: this.#number, reason })
    }
  }
}
