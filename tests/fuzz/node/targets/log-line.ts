/**
 * Lines of access logs: a line that is read has a finite time, and fields and keys that are strings
 * or missing; any other line has a reason.
 */

import { shownTime } from '../../../../ts/cli/format.js'
import { isKey, keySpecOf } from '../../../../ts/cli/simulate/log/key.js'
import { FIELDS, type LogFormat, LogLine } from '../../../../ts/cli/simulate/log/line.js'

export const maxLength = 4_096

export const dictionary = [
  ...[
    ' - - [',
    '10/Oct/2000:13:55:36 -0700',
    '] "',
    'GET / HTTP/1.1',
    '" 200 2326',
    ' "-" "',
    '\\"',
    '"',
    ' [',
    '[',
    ']',
  ],
  ...[
    '{"time":',
    '{"ts":',
    '"ip":',
    '"request":',
    '{}',
    '[]',
    'null',
    '"2026-01-31T23:59:59.999Z"',
    '1795219200',
    '1e308',
  ],
  ...[
    '"remote_addr":',
    '"status":',
    '"headers":{"x":["a"]}',
    '::1',
    '2001:db8::1',
    '%25',
    '\n',
    '"req":{"url":',
    '29/Feb/2023',
  ],
]

export const examples = [
  '192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.0" 200 2326 "http://a/" "Mozilla \\"x\\""',
  '2001:db8::1 - - [31/Dec/2025:23:59:60 +0530] "-" 408 -',
  '{"time":"2026-01-31T23:59:59.5+05:45","remote_addr":"192.0.2.1","request":"GET /x HTTP/2","headers":{"x":["a"]}}',
  '{"ts":1795219200.5,"req":{"url":"/x?y","method":"GET"},"res":{"statusCode":200}}',
]

const KEYS = ['ip', 'ip+path', 'headers.x', '/"(\\w+) /', 'user-agent+status', 'time']
const specs = KEYS.map((text) => keySpecOf(text, 56))

const lines = (['auto', 'common', 'json'] as const).flatMap((format: LogFormat) =>
  [undefined, 'headers.x', 'msec'].map((timeField) => new LogLine(format, timeField)),
)

export function run(input: Buffer): void {
  // A line inside a chunk: its neighbours are not a part of it.
  const text = input.toString('latin1')
  const chunk = `a - - [x] "y\n${text}\nb - - [z] "w" 1`
  const [start, end] = [13, 13 + text.length]
  for (const line of lines) {
    if (!line.read(chunk, start, end, /^[\0-\x7f]*$/.test(text))) {
      if (line.reason === '') {
        throw new Error('a line that cannot be read has no reason')
      }
      continue
    }
    if (!Number.isFinite(line.time) || line.time < 0) {
      throw new Error(`its time is ${line.time}`)
    }
    shownTime(line.time)
    for (const field of FIELDS) {
      check(field, line.field(field))
    }
    for (const spec of specs) {
      const key = spec.read(line)
      check(spec.text, key)
      if (key !== undefined) {
        isKey(spec.refine(key))
      }
    }
  }
}

function check(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'string') {
    throw new Error(`${name} is a ${typeof value}`)
  }
  // The parts of a line are inside it.
  if (typeof value === 'string' && (value.includes('\nb - - [z]') || value.includes('a - - [x]'))) {
    throw new Error(`${name} reaches into another line`)
  }
}
