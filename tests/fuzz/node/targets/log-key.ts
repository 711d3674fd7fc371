/** The option `--key`: an error is a usage error; a key that parses reads any line. */
import { CommandFailure } from '../../../../ts/cli/failure.js'
import { keySpecOf, prefixOf } from '../../../../ts/cli/simulate/log/key.js'
import { LogLine } from '../../../../ts/cli/simulate/log/line.js'

export const maxLength = 200

export const dictionary = [
  ...['ip', 'path', 'user', 'user-agent', '+', '/(', ')/', '/i', '\\/', 'headers.x-api-key', '.', '[', ']', '{', '}'],
  ...['__proto__', 'constructor', '\\d', '(?<a>', '|', '/', 'u', 'ims'],
]

export const examples = ['ip+path', '/api_key=(\\w+)/i', 'headers.x-api-key', 'ip+/a+b/+user']

const LINES = [
  '192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?api_key=b HTTP/1.0" 200 2326',
  '{"time":1795219200,"ip":"2001:db8::1","headers":{"x-api-key":"k"},"path":"/a"}',
]

export function run(input: Buffer): void {
  const text = input.toString('utf8')
  try {
    prefixOf(Number(text.slice(0, 4)))
  } catch (error) {
    orUsageError(error)
  }
  try {
    const spec = keySpecOf(text, 56)
    for (const one of LINES) {
      const line = new LogLine('auto', undefined)
      line.read(one, 0, one.length, true)
      // A user's regular expression may take as long as the user wrote it to.
      const key = text.includes('/') ? undefined : spec.read(line)
      if (key !== undefined && typeof spec.refine(key) !== 'string') {
        throw new Error('its key is no string')
      }
    }
  } catch (error) {
    orUsageError(error)
  }
}

function orUsageError(error: unknown): void {
  if (!(error instanceof CommandFailure)) {
    throw error
  }
}
