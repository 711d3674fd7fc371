import { CLF_TIME_LENGTH, clfTime, timeOfField } from './times.js'

/** How the lines of a log are to be read: `auto` takes those that begin with `{` for JSON. */
export type LogFormat = 'auto' | 'common' | 'json'

/** The fields that every format has, by the names that keys use. */
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

export type Field = (typeof FIELDS)[number]

/** Where JSON logs have these fields, as servers and proxies name them: the first that is there is taken. */
const JSON_NAMES: Readonly<Record<Field | 'time', readonly string[]>> = {
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
) as unknown as Readonly<Record<Field | 'time', readonly (readonly string[])[]>>

const NON_ASCII = /[\x80-\xff]/
const BRACE = 123
const BRACKET = 91
const DASH = 45
const SPACE = 32
const BACKSLASH = 92

/**
 * The line that is being read. There is one for all lines: it remembers where things stand and makes texts only of
 * what is asked for.
 */
export class Line {
  /** Epoch milliseconds. */
  time = 0
  /** Why the line could not be read. */
  reason = ''
  #text = ''
  #start = 0
  #end = 0
  #isAscii = true
  /** Behind the address; the bracket before the time; the quotes around the request. */
  #hostEnd = 0
  #bracket = 0
  #requestStart = 0
  #requestEnd = 0
  /** The object of a JSON line. */
  #object: object | undefined
  readonly #isJson: (text: string, start: number) => boolean
  readonly #timePaths: readonly (readonly string[])[]

  /** @param timeField - The JSON field that has the time, if it is none of the usual ones. */
  constructor(format: LogFormat, timeField: string | undefined) {
    this.#isJson = format === 'auto' ? (text, start) => text.charCodeAt(start) === BRACE : () => format === 'json'
    this.#timePaths = timeField === undefined ? PATHS.time : [timeField.split('.')]
  }

  /** Reads the line from `start` to `end`; false, with a {@link reason}, if it is none. */
  read(text: string, start: number, end: number, isAscii: boolean): boolean {
    this.#text = text
    this.#start = start
    this.#end = end
    this.#isAscii = isAscii
    return this.#isJson(text, start) ? this.#readJson() : this.#readCommon()
  }

  /** A field; `undefined` if the line has none. */
  field(name: Field): string | undefined {
    return this.#object === undefined ? this.#commonField(name) : this.#jsonField(this.#object, name)
  }

  /** What a JSON line has at a path; `undefined` in other lines. */
  at(path: readonly string[]): string | undefined {
    return this.#object === undefined ? undefined : textOf(valueAt(this.#object, path))
  }

  /** The whole line. */
  get whole(): string {
    return this.#part(this.#start, this.#end)
  }

  /** `host ident user [time] "request" status bytes`, and behind it whatever there is: combined logs have two fields more. */
  #readCommon(): boolean {
    this.#object = undefined
    const text = this.#text
    const hostEnd = text.indexOf(' ', this.#start)
    const bracket = isAnonymous(text, hostEnd) ? hostEnd + 5 : this.#bracketFrom(hostEnd)
    if (hostEnd <= this.#start || bracket < hostEnd || bracket >= this.#end) {
      return this.#fail('neither JSON nor the common log format: no [time]')
    }
    this.#hostEnd = hostEnd
    return this.#readFrom(bracket) || this.#readBehind(bracket)
  }

  /** What follows the bracket that comes before the time. */
  #readFrom(bracket: number): boolean {
    const text = this.#text
    const time = clfTime(text, bracket + 1)
    const requestStart = bracket + CLF_TIME_LENGTH + 4
    if (!(time >= 0) || requestStart > this.#end || !text.startsWith('] "', requestStart - 3)) {
      return this.#fail('no time like [10/Oct/2000:13:55:36 -0700]')
    }
    const requestEnd = closingQuote(text, requestStart)
    if (requestEnd < 0 || requestEnd >= this.#end) {
      return this.#fail('the request in quotes does not end')
    }
    const status = text.charCodeAt(requestEnd + 2)
    if (text.charCodeAt(requestEnd + 1) !== SPACE || requestEnd + 2 >= this.#end || !(status >= 45 && status < 58)) {
      return this.#fail('no status behind the request')
    }
    this.time = time
    this.#bracket = bracket
    this.#requestStart = requestStart
    this.#requestEnd = requestEnd
    return true
  }

  /** A user may write brackets into a name: the time is in one of those that follow. */
  #readBehind(first: number): boolean {
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

  /** The next bracket behind a space in this line, which alone is searched: a file may have none, and many lines. */
  #bracketFrom(start: number): number {
    const found = start < 0 || start >= this.#end ? -1 : this.#text.substring(start, this.#end).indexOf(' [')
    return found < 0 ? -1 : start + found + 1
  }

  #readJson(): boolean {
    let object: unknown
    try {
      object = JSON.parse(this.whole)
    } catch {
      return this.#fail('no JSON')
    }
    if (typeof object !== 'object' || object === null || Array.isArray(object)) {
      return this.#fail('no JSON object')
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

  #commonField(name: Field): string | undefined {
    switch (name) {
      case 'ip':
        return this.#part(this.#start, this.#hostEnd)
      case 'user':
        return given(this.#part(this.#text.indexOf(' ', this.#hostEnd + 1) + 1, this.#bracket - 1))
      case 'request':
        return given(this.#part(this.#requestStart, this.#requestEnd))
      case 'status':
        return given(this.#word(2))
      case 'bytes':
        return given(this.#word(3))
      case 'referer':
        return given(this.#quoted(1))
      case 'user-agent':
        return given(this.#quoted(2))
      default:
        return partOfRequest(this.#part(this.#requestStart, this.#requestEnd), name)
    }
  }

  /** The word behind the request of this number, counted from the quote on. */
  #word(number: number): string {
    return this.#part(this.#requestEnd, this.#end).split(' ', number)[number - 1] ?? ''
  }

  /** The field in quotes of this number behind the request. */
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

  #jsonField(object: object, name: Field): string | undefined {
    for (const path of PATHS[name]) {
      const value = textOf(valueAt(object, path))
      if (value !== undefined) {
        return given(value)
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

/** Whether ` - - [` follows: neither ident nor user, as most lines have it. */
function isAnonymous(text: string, end: number): boolean {
  return (
    text.charCodeAt(end + 1) === DASH &&
    text.charCodeAt(end + 2) === SPACE &&
    text.charCodeAt(end + 3) === DASH &&
    text.charCodeAt(end + 4) === SPACE &&
    text.charCodeAt(end + 5) === BRACKET
  )
}

/** Where the quote is that ends a text; servers write those within as `\"`. */
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

/** Logs write `-` for what is not there. */
function given(value: string): string | undefined {
  return value === '' || value === '-' ? undefined : value
}

function partOfRequest(request: string, name: Field): string | undefined {
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

/** What an object has at a path. A name with dots of its own is found, too. */
function valueAt(object: object, path: readonly string[]): unknown {
  let place: unknown = object
  for (const [index, name] of path.entries()) {
    if (typeof place !== 'object' || place === null) {
      return undefined
    }
    if (!Object.hasOwn(place, name)) {
      const rest = path.slice(index).join('.')
      return Object.hasOwn(place, rest) ? (place as Record<string, unknown>)[rest] : undefined
    }
    place = (place as Record<string, unknown>)[name]
  }
  return place ?? undefined
}

/** A list, as headers often are, is its first value. */
function textOf(value: unknown): string | undefined {
  if (Array.isArray(value)) {
    return textOf(value[0])
  }
  const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  return isPlain && value !== '' ? String(value) : undefined
}
