import { isPlain } from '../input/options.js'
import type { Answer } from './answer.js'
import type { UsageNumbers } from './options.js'
import type { ScheduledCall } from './scheduled-call.js'
import type { TurnCost } from './turn-need.js'

/** The data of the last event of OpenAI's streams, and of those like them. */
const LAST_EVENT = '[DONE]'

/** The longest JSON body, and the longest event, that is kept: 16 million characters. */
const MAX_TEXT = 2 ** 24

/** Stands for a longer text: as a line of a stream it is a comment, and it is not JSON. */
const TOO_LONG = ':'

/** Reads the usage that a response reports, while its body passes. */
export class UsageReader {
  readonly #isStream: boolean
  readonly #decoder = new TextDecoder()
  /** The text of a JSON body; of a stream only the line that has not ended. */
  #text = ''
  /** The data of the event of a stream that has not ended. */
  #data = ''
  #usage: UsageNumbers | undefined
  #isWhole = false
  /** Whether a stream has an event `error`. Anthropic's servers then end it, and have reported a part of the usage. */
  #hasFailed = false

  private constructor(isStream: boolean) {
    this.#isStream = isStream
  }

  /** `undefined` for a value that is not a response with JSON or with a stream of events. */
  static of(value: unknown): UsageReader | undefined {
    const type = contentTypeOf(value)
    const [, kind] = /^\s*(text\/event-stream|application\/(?:[\w.-]+\+)?json)\s*(?:;|$)/i.exec(type ?? '') ?? []
    return kind === undefined ? undefined : new UsageReader(/^text/i.test(kind))
  }

  /** The latest number of each name; `undefined` without any. */
  get usage(): UsageNumbers | undefined {
    return this.#usage
  }

  /**
   * Whether the body has been read to its end, or to the last event of a stream, where some readers stop; and has no
   * event `error`.
   */
  get isWhole(): boolean {
    return this.#isWhole && !this.#hasFailed
  }

  add(chunk: Uint8Array): void {
    this.#addText(this.#decoder.decode(chunk, { stream: true }))
  }

  end(): void {
    this.#isWhole = true
    this.#addText(this.#decoder.decode())
    // An event that no empty line ends.
    this.#addLine(this.#isStream ? this.#text : '')
    this.#read(this.#isStream ? this.#data : this.#text)
  }

  #addText(text: string): void {
    this.#text += text
    if (this.#isStream && /[\r\n]/.test(text)) {
      const lines = this.#text.split(/\r\n|\r|\n/)
      this.#text = lines.pop() as string
      for (const line of lines) {
        this.#addLine(line)
      }
    }
    this.#text = bounded(this.#text)
  }

  /** A line break of two characters may come in two chunks. It ends the event early, which has one line of data. */
  #addLine(line: string): void {
    if (line.startsWith('data:')) {
      this.#data = bounded(this.#data + line.slice(5))
    } else if (/^event: ?error$/.test(line)) {
      this.#hasFailed = true
    } else if (line === '') {
      this.#read(this.#data)
      this.#data = ''
    }
  }

  #read(json: string): void {
    if (json.trim() === LAST_EVENT) {
      this.#isWhole = true
    } else if (json.includes('"usage"')) {
      const found = usageIn(json)
      this.#usage = found === undefined ? this.#usage : { ...this.#usage, ...found }
    }
  }
}

/** `null` also for an object that stands for a response and throws, such as a proxy. */
function contentTypeOf(value: unknown): string | null {
  try {
    return value instanceof Response ? value.headers.get('content-type') : null
  } catch {
    return null
  }
}

function bounded(text: string): string {
  return text.length > MAX_TEXT ? TOO_LONG : text
}

/** The usage in a JSON body, or in an event of a stream: of OpenAI, and of servers and providers with such an API. */
function usageIn(json: string): UsageNumbers | undefined {
  try {
    const data: Reporting = JSON.parse(json)
    const usage = data.usage ?? data.message?.usage ?? data.response?.usage
    const numbers = numbersIn(usage, '')
    return numbers.length === 0 ? undefined : Object.fromEntries(numbers)
  } catch {
    // Not JSON, or no object.
    return undefined
  }
}

interface Reporting {
  readonly usage?: unknown
  /** The first event of Anthropic's streams. */
  readonly message?: { readonly usage?: unknown }
  /** The last event of OpenAI's streams of responses. */
  readonly response?: { readonly usage?: unknown }
}

function numbersIn(value: unknown, prefix: string): [name: string, number: number][] {
  return Object.entries(value ?? {}).flatMap(([name, member]): [string, number][] => {
    if (typeof member === 'number') {
      return [[`${prefix}${name}`, member]]
    }
    return typeof member === 'object' ? numbersIn(member, `${prefix}${name}.`) : []
  })
}

/** The units of an attempt that has ended; `undefined`: those that it has taken. */
export function usedUnits(
  { cost, namedCost }: ScheduledCall,
  { status = 0, isRefusal }: Answer,
  reader: UsageReader | undefined,
  usageOf: (usage: UsageNumbers) => unknown,
): TurnCost | undefined {
  if (isRefusal || (status >= 400 && status < 500)) {
    return unusedOf(namedCost)
  }
  const used = reader?.usage === undefined ? undefined : (usageOf(reader.usage) as TurnCost | undefined)
  // More may have been used than was reported before the end.
  return reader?.isWhole === true || used === undefined ? used : atLeast(used, cost)
}

/** A server that has not done the work has used none of the units that the caller estimated. It has had a request. */
function unusedOf(named: unknown): TurnCost | undefined {
  return typeof named === 'object' && named !== null
    ? Object.fromEntries(Object.keys(named).map((meter) => [meter, 0]))
    : named === undefined
      ? undefined
      : 0
}

function atLeast(used: TurnCost, cost: TurnCost): TurnCost {
  if (typeof used === 'number' || typeof cost === 'number') {
    return Math.max(Number(used), Number(cost))
  }
  // The limiter refuses other values.
  if (typeof used !== 'object' || used === null || !isPlain(used)) {
    return used
  }
  return Object.fromEntries(Object.entries(used).map(([meter, units]) => [meter, Math.max(units, cost[meter] ?? 0)]))
}
