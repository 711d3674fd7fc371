/** URLs of Redis: an error is an `INVALID_OPTION`, and contains no password. */
import { TollgateError } from '../../../../ts/api/error.js'
import { parseRedisUrl } from '../../../../ts/backends/redis/url.js'

export const maxLength = 512

export const dictionary = [
  ...[
    'redis://',
    'rediss://',
    'redis+unix://',
    'unix://',
    'http://',
    '/0',
    '?db=1',
    '&user=',
    '&pass=',
    '#',
    '%',
    '%25',
  ],
  ...['@', ':', '[::1]', 'localhost', ':6379', 'SECRET', '%E2%82%AC', '%00', '\\', ' ', '..', '://', 'xn--'],
]

export const examples = [
  'redis://user:SECRET@localhost:6379/3',
  'rediss://:SECRET@[::1]/',
  'redis+unix:///tmp/a.sock?db=2&user=a&pass=SECRET',
  'redis://h/99999999?x=SECRET#y',
  'redis://a:SECRET%@h',
]

/** What no message may contain. */
const PASSWORD = 'SECRET'

export function run(input: Buffer): void {
  const text = input.toString('utf8')
  try {
    const { address, username, password, database } = parseRedisUrl('url', text)
    for (const part of [address.host, username ?? '', password ?? '']) {
      if (typeof part !== 'string') {
        throw new Error(`not a string: ${typeof part}`)
      }
    }
    const isPort = Number.isInteger(address.port) && address.port >= 0 && address.port < 65_536
    const isDatabase = database === undefined || (Number.isInteger(database) && database >= 0)
    if (!isPort || !isDatabase || (address.host === '') !== (address.path !== undefined)) {
      throw new Error('the address is invalid')
    }
  } catch (error) {
    const isExpected = error instanceof TollgateError && error.code === 'INVALID_OPTION'
    if (!isExpected) {
      throw error
    }
    if (`${error.message}${String(error.cause ?? '')}`.includes(PASSWORD)) {
      throw new Error(`the message contains the password: ${error.message}`)
    }
  }
}
