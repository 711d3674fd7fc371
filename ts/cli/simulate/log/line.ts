import { CLF_TIME_LENGTH, clfTime, timeOfField } from './times.js'

/** The format of a log. `auto` reads lines that start with `{` as JSON. */
export type LogFormat = 'auto' | 'common' | 'json'

/** The fields of all formats, with the names that keys use. */
export const FIELDS = [
  'ip',
  'user',
  'request',
  'method',
  'url',
  'path',
  'protocol',
  'status',
  'bytes',
  'referer',
  'user-agent',
] as const

export type LogField = (typeof FIELDS)[number]

/** The names of these fields in JSON logs of common servers and proxies. The first that exists is used. */
const JSON_NAMES: Readonly<Record<LogField | 'time', readonly string[]>> = {
  time: ['time', 'timestamp', '@timestamp', 'ts', 'time_iso8601', 'time_local', 'msec', 'date', 'StartUTC'],
  ip: ['ip', 'remote_addr', 'remoteAddress', 'client_ip', 'clientIp', 'remote_ip', 'ClientHost', 'request.remote_ip'],
  user: ['user', 'remote_user', 'user_id', 'userId', 'ClientUsername'],
  request: ['request_line'],
  method: ['method', 'request_method', 'req.method', 'request.method', 'RequestMethod'],
  url: ['url', 'uri', 'request_uri', 'req.url', 'request.uri', 'request.url', 'RequestPath'],
  path: ['path'],
  protocol: ['protocol', 'server_protocol', 'request.proto', 'RequestProtocol'],
  status: ['status', 'statusCode', 'res.statusCode', 'DownstreamStatus'],
  bytes: ['bytes', 'body_bytes_sent', 'bytes_sent', 'size', 'DownstreamContentSize'],
  referer: ['referer', 'http_referer', 'referrer'],
  'user-agent': ['user_agent', 'userAgent', 'http_user_agent', 'user-agent'],
}

const PATHS = Object.fromEntries(
  Object.entries(JSON_NAMES).map(([field, names]) => [field, names.map((name) => name.split('.'))]),
) as unknown as Readonly<Record<LogField | 'time', readonly (readonly string[])[]>>

const NON_ASCII = /[\x80-\xff]/
const BRACE = 123
const SPACE = 32
const BACKSLASH = 92

/** The current line of a log. One object is reused for all lines. It creates strings only for the requested fields. */
export class LogLine {
  /** Epoch milliseconds. */
  time = 0
  reason = ''
  #text = ''
  #start = 0
  #end = 0
  #isAscii = true
  /** The end of the address; the bracket before the time; the bounds of the request inside its quotes. */
  #hostEnd = 0
  #bracket = 0
  #requestStart = 0
  #requestEnd = 0
  #object: object | undefined
  readonly #isJson: (text: string, start: number) => boolean
  readonly #timePaths: readonly (readonly string[])[]

  /** @param timeField - The JSON field with the time, if it is not one of the common names. */
  constructor(format: LogFormat, timeField: string | undefined) {
    this.#isJson = format === 'auto' ? (text, start) => text.charCodeAt(start) === BRACE : () => format === 'json'
    this.#timePaths = timeField === undefined ? PATHS.time : [timeField.split('.')]
  }

  /** Reads the line from `start` to `end`. Returns false and sets {@link reason} if it cannot be read. */
  read(text: string, start: number, end: number, isAscii: boolean): boolean {
    this.#text = text
    this.#start = start
    this.#end = end
    this.#isAscii = isAscii
    return this.#isJson(text, start) ? this.#readJson() : this.#readCommon()
  }

  field(name: LogField): string | undefined {
    return this.#object === undefined ? this.#commonField(name) : this.#jsonField(this.#object, name)
  }

  /** The value at a path of a JSON line; `undefined` in other lines. */
  at(path: readonly string[]): string | undefined {
    return this.#object === undefined ? undefined : textOf(valueAt(this.#object, path))
  }

  get whole(): string {
    return this.#part(this.#start, this.#end)
  }

  /** `host ident user [time] "request" status bytes`; anything may follow. Combined logs have two more fields. */
  #readCommon(): boolean {
    this.#object = undefined
    const text = this.#text
    const hostEnd = text.indexOf(' ', this.#start)
    // Most lines have no ident and no user.
    const bracket = text.startsWith(' - - [', hostEnd) ? hostEnd + 5 : this.#bracketFrom(hostEnd)
    if (hostEnd <= this.#start || bracket < hostEnd || bracket >= this.#end) {
      return this.#fail('neither JSON nor the common log format: no [time]')
    }
    this.#hostEnd = hostEnd
    return this.#readFrom(bracket) || this.#readLater(bracket)
  }

  /** Reads the rest of the line from the bracket before the time. */
  #readFrom(bracket: number): boolean {
    const text = this.#text
    const time = clfTime(text, bracket + 1)
    const requestStart = bracket + CLF_TIME_LENGTH + 4
    if (!(time >= 0) || requestStart > this.#end || !text.startsWith('] "', requestStart - 3)) {
      return this.#fail('no time like [10/Oct/2000:13:55:36 -0700]')
    }
    const requestEnd = closingQuote(text, requestStart)
    if (requestEnd < 0 || requestEnd >= this.#end) {
      return this.#fail('the quoted request does not end')
    }
    const status = text.charCodeAt(requestEnd + 2)
    if (text.charCodeAt(requestEnd + 1) !== SPACE || requestEnd + 2 >= this.#end || !(status >= 45 && status < 58)) {
      return this.#fail('no status after the request')
    }
    this.time = time
    this.#bracket = bracket
    this.#requestStart = requestStart
    this.#requestEnd = requestEnd
    return true
  }

  /** A user's name may contain brackets, so the time may be in a later pair. */
  #readLater(first: number): boolean {
    const { reason } = this
    for (let next = first; ; ) {
      next = this.#bracketFrom(next)
      if (next < 0) {
        return this.#fail(reason)
      }
      if (this.#readFrom(next)) {
        return true
      }
    }
  }

  /** The next bracket after a space. It searches only this line: a chunk may have many lines and no bracket. */
  #bracketFrom(start: number): number {
    const found = start < 0 || start >= this.#end ? -1 : this.#text.substring(start, this.#end).indexOf(' [')
    return found < 0 ? -1 : start + found + 1
  }

  #readJson(): boolean {
    let object: unknown
    try {
      object = JSON.parse(this.whole)
    } catch {
      return this.#fail('invalid JSON')
    }
    if (typeof object !== 'object' || object === null || Array.isArray(object)) {
      return this.#fail('not a JSON object')
    }
    this.#object = object
    this.time = Number.NaN
    for (const path of this.#timePaths) {
      const value = valueAt(object, path)
      if (value !== undefined) {
        this.time = timeOfField(value)
        break
      }
    }
    return this.time >= 0 || this.#fail('no time in the JSON object')
  }

  #commonField(name: LogField): string | undefined {
    switch (name) {
      case 'ip':
        return this.#part(this.#start, this.#hostEnd)
      case 'user':
        return presentValue(this.#part(this.#text.indexOf(' ', this.#hostEnd + 1) + 1, this.#bracket - 1))
      case 'request':
        return presentValue(this.#part(this.#requestStart, this.#requestEnd))
      case 'status':
        return presentValue(this.#word(2))
      case 'bytes':
        return presentValue(this.#word(3))
      case 'referer':
        return presentValue(this.#quoted(1))
      case 'user-agent':
        return presentValue(this.#quoted(2))
      default:
        return partOfRequest(this.#part(this.#requestStart, this.#requestEnd), name)
    }
  }

  /** The word at a position after the request. Word 1 is the closing quote itself. */
  #word(number: number): string {
    return this.#part(this.#requestEnd, this.#end).split(' ', number)[number - 1] ?? ''
  }

  #quoted(number: number): string {
    let end = this.#requestEnd
    let start = end
    for (let count = 0; count < number; count++) {
      start = this.#text.indexOf('"', end + 1) + 1
      end = start === 0 ? -1 : closingQuote(this.#text, start)
      if (end < 0 || end >= this.#end) {
        return ''
      }
    }
    return this.#part(start, end)
  }

  #jsonField(object: object, name: LogField): string | undefined {
    for (const path of PATHS[name]) {
      const value = textOf(valueAt(object, path))
      if (value !== undefined) {
        return presentValue(value)
      }
    }
    if (name === 'path') {
      return withoutQuery(this.#jsonField(object, 'url'))
    }
    const request = name === 'method' || name === 'url' ? valueAt(object, ['request']) : undefined
    return typeof request === 'string' ? partOfRequest(request, name) : undefined
  }

  #part(start: number, end: number): string {
    const part = this.#text.substring(start, end)
    return this.#isAscii || !NON_ASCII.test(part) ? part : Buffer.from(part, 'latin1').toString('utf8')
  }

  #fail(reason: string): false {
    this.reason = reason
    return false
  }
}

/** The position of the closing quote. Servers write quotes inside the text as `\"`. */
function closingQuote(text: string, start: number): number {
  let quote = text.indexOf('"', start)
  while (quote > start && isEscaped(text, start, quote)) {
    quote = text.indexOf('"', quote + 1)
  }
  return quote
}

function isEscaped(text: string, start: number, at: number): boolean {
  let slashes = 0
  while (at - slashes > start && text.charCodeAt(at - slashes - 1) === BACKSLASH) {
    slashes++
  }
  return slashes % 2 === 1
}

/** Logs write `-` for a missing value. */
function presentValue(value: string): string | undefined {
  return value === '' || value === '-' ? undefined : value
}

function partOfRequest(request: string, name: LogField): string | undefined {
  const [method, url, protocol] = request.split(' ')
  if (url === undefined) {
    return undefined
  }
  return name === 'method' ? method : name === 'url' ? url : name === 'protocol' ? protocol : withoutQuery(url)
}

function withoutQuery(url: string | undefined): string | undefined {
  const query = url?.indexOf('?') ?? -1
  return query < 0 ? url : url?.slice(0, query)
}

/** The value at a path of an object. A name that contains dots is found, too. */
function valueAt(object: object, path: readonly string[]): unknown {
  let target: unknown = object
  for (const [index, name] of path.entries()) {
    if (typeof target !== 'object' || target === null) {
      return undefined
    }
    if (!Object.hasOwn(target, name)) {
      const rest = path.slice(index).join('.')
      return Object.hasOwn(target, rest) ? (target as Record<string, unknown>)[rest] : undefined
    }
    target = (target as Record<string, unknown>)[name]
  }
  return target ?? undefined
}

/** The text of a value. For a list, such as a header's values: the text of the first element. */
function textOf(value: unknown): string | undefined {
  if (Array.isArray(value)) {
    return textOf(value[0])
  }
  const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  return isPlain && value !== '' ? String(value) : undefined
}
