/** Log lines as servers write them: which fields are parsed, and which lines are rejected. */
import { FIELDS, LogLine } from '../../ts/cli/simulate/log/line.js'
import { clfTime, timeOfField } from '../../ts/cli/simulate/log/times.js'

const TIME = '10/Oct/2000:13:55:36 -0700'
const MILLIS = Date.UTC(2000, 9, 10, 20, 55, 36)

/** The fields of a line, or the reason why it cannot be parsed. */
function read(text: string, isAscii = true): Record<string, unknown> | string {
  const line = new LogLine('auto', undefined)
  // The line is parsed within a block that has other bytes around it.
  const before = `other - - [${TIME}] "GET /other HTTP/1.1" 200 1\n`
  if (!line.read(`${before}${text}\n${before}`, before.length, before.length + text.length, isAscii)) {
    return line.reason
  }
  const fields = FIELDS.map((name) => [name, line.field(name)] as const)
  return { time: line.time, ...Object.fromEntries(fields.filter(([, value]) => value !== undefined)) }
}

test('the common format', () => {
  expect(read(`127.0.0.1 - frank [${TIME}] "GET /a.gif?x=1 HTTP/1.0" 200 2326`)).toEqual({
    time: MILLIS,
    ip: '127.0.0.1',
    user: 'frank',
    request: 'GET /a.gif?x=1 HTTP/1.0',
    method: 'GET',
    url: '/a.gif?x=1',
    path: '/a.gif',
    protocol: 'HTTP/1.0',
    status: '200',
    bytes: '2326',
  })
})

test('the combined format, with escaped quotes and fields after it', () => {
  const agent = 'a \\"quoted\\" agent [x] \\\\'
  const text = `2001:db8::1 - - [${TIME}] "GET /\\"a HTTP/2.0" 404 - "-" "${agent}" "203.0.113.9" 0.004`
  expect(read(text)).toEqual({
    time: MILLIS,
    ip: '2001:db8::1',
    request: 'GET /\\"a HTTP/2.0',
    method: 'GET',
    url: '/\\"a',
    path: '/\\"a',
    protocol: 'HTTP/2.0',
    status: '404',
    'user-agent': agent,
  })
})

test('a user name with spaces and brackets, a malformed request, and letters beyond ASCII', () => {
  expect(read(`h - a [b c] d [${TIME}] "\\x16\\x03" 400 0`)).toEqual({
    time: MILLIS,
    ip: 'h',
    user: 'a [b c] d',
    request: '\\x16\\x03',
    status: '400',
    bytes: '0',
  })
  const bytes = Buffer.from(`h - zoë [${TIME}] "GET / HTTP/1.1" 200 1`).toString('latin1')
  expect(read(bytes, false)).toMatchObject({ user: 'zoë' })
})

test.each([
  ['', 'neither JSON nor the common log format: no [time]'],
  ['10.0.0.1', 'neither JSON nor the common log format: no [time]'],
  ['10.0.0.1 - - [then] "GET / HTTP/1.1" 200 1', 'no time like [10/Oct/2000:13:55:36 -0700]'],
  ['10.0.0.1 - - [10/Oct/2000:24:00:00 -0700] "GET / HTTP/1.1" 200 1', 'no time like [10/Oct/2000:13:55:36 -0700]'],
  [`10.0.0.1 - - [${TIME}]`, 'no time like [10/Oct/2000:13:55:36 -0700]'],
  [`10.0.0.1 - - [${TIME}] "GET / HT`, 'the quoted request does not end'],
  [`10.0.0.1 - - [${TIME}] "GET / HTTP/1.1"`, 'no status after the request'],
  [`10.0.0.1 - - [${TIME}] "GET / HTTP/1.1" OK`, 'no status after the request'],
  ['{"time": 1', 'invalid JSON'],
  ['{"when": 1}', 'no time in the JSON object'],
  ['{"time": "soon"}', 'no time in the JSON object'],
])('%j is invalid: %s', (text, reason) => {
  expect(read(text)).toBe(reason)
})

test.each([
  ['nginx', { time_iso8601: '2026-01-31T10:00:00+01:00', remote_addr: 'i', request: 'GET /a?b HTTP/1.1' }],
  ['Caddy', { ts: 1769850000, request: { remote_ip: 'i', method: 'GET', uri: '/a?b' } }],
  ['pino', { time: 1769850000000, remoteAddress: 'i', req: { method: 'GET', url: '/a?b' } }],
  [
    'Traefik',
    { StartUTC: '2026-01-31T09:00:00.000000000Z', ClientHost: 'i', RequestMethod: 'GET', RequestPath: '/a?b' },
  ],
  ['names with dots', { '@timestamp': '2026-01-31 09:00:00', ip: 'i', 'req.method': 'GET', 'req.url': '/a?b' }],
])('JSON as %s writes it', (_name, object) => {
  const fields = { ip: 'i', method: 'GET', url: '/a?b', path: '/a' }
  expect(read(JSON.stringify(object))).toMatchObject({ time: Date.UTC(2026, 0, 31, 9), ...fields })
})

test.each([
  ['31/Jan/2026:10:00:00 +0000', Date.UTC(2026, 0, 31, 10)],
  ['29/Feb/2024:00:00:00 +0530', Date.UTC(2024, 1, 28, 18, 30)],
  ['31/Dec/2016:23:59:60 +0000', Date.UTC(2017, 0, 1)],
  ['29/Feb/2026:10:00:00 +0000', Number.NaN],
  ['00/Jan/2026:10:00:00 +0000', Number.NaN],
  ['31/jan/2026:10:00:00 +0000', Number.NaN],
  ['31/Jan/2026 10:00:00 +0000', Number.NaN],
  ['3a/Jan/2026:10:00:00 +0000', Number.NaN],
  ['31/Jan/2026:10:00:00 00000', Number.NaN],
])('%s is %d', (text, millis) => {
  expect(clfTime(`[${text}`, 1)).toBe(millis)
})

test.each([
  ['2026-01-31T10:00:00Z', Date.UTC(2026, 0, 31, 10)],
  ['2026-01-31T10:00:00.123456789-0230', Date.UTC(2026, 0, 31, 12, 30) + 123.457],
  ['2026-01-31 10:00:00,5', Date.UTC(2026, 0, 31, 10) + 500],
  ['[31/Jan/2026:10:00:00 +0000]', Date.UTC(2026, 0, 31, 10)],
  [1769853600, 1769853600000],
  [1769853600.25, 1769853600250],
  ['1769853600000', 1769853600000],
  [1769853600000001, 1769853600000.001],
  ['1769853600000001000', 1769853600000.001],
  ['2026-02-29T10:00:00Z', Number.NaN],
  ['yesterday', Number.NaN],
  [1e20, Number.NaN],
  [-1e300, Number.NaN],
  [null, Number.NaN],
  [{ seconds: 1 }, Number.NaN],
])('a field of %j means the time %d', (value, millis) => {
  expect(Math.round(timeOfField(value) * 1_000)).toBe(Math.round(millis * 1_000))
})
