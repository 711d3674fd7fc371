import { TollgateError } from '../../api/error.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../../input/options.js'

/** The options of {@link ipKey}. */
export interface IpKeyOptions {
  /**
   * The number of leading bits of an IPv6 address that make the key: a whole number from 1 to 128.
   * Default: 56, because a home or an office gets at least a /64, and usually a /56.
   */
  readonly prefix?: number
}

/** The default number of bits of an IPv6 address that make a key. */
const DEFAULT_PREFIX = 56

/** The number of groups in an IPv6 address, and the bits of each. */
const GROUPS = 8
const GROUP_BITS = 16

const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4 = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`)
const GROUP = /^[\da-f]{1,4}$/i

/**
 * Makes a key from a client address.
 *
 * - An IPv4 address is its own key.
 * - The key of an IPv6 address is its network: a client that has one address has the whole
 *   network, and could otherwise use a new address for each request.
 * - An IPv4-mapped address (`::ffff:192.0.2.1`) has the key of the IPv4 address. A zone (`%eth0`)
 *   is ignored.
 *
 * Pass only an address from a trusted source: a client can write anything into `X-Forwarded-For`.
 *
 * @param ip - The address. A missing address is an error, so that clients without an address do not
 * share one key.
 * @throws {TollgateError} `INVALID_KEY` if `ip` is not an IP address; `INVALID_OPTION`.
 *
 * @example
 * ipKey('::ffff:192.0.2.1')            // 192.0.2.1
 * ipKey('2001:db8:0:7f01::1')          // 2001:db8:0:7f00:0:0:0:0/56
 * ipKey('2001:db8::1', { prefix: 64 }) // 2001:db8:0:0:0:0:0:0/64
 */
export function ipKey(ip: string | null | undefined, options?: IpKeyOptions): string {
  checkCount(
    arguments.length,
    2,
    'ipKey takes an address and an object of options',
    'in a map, write (ip) => ipKey(ip)',
  )
  const prefix = options === undefined ? DEFAULT_PREFIX : prefixOf(options)
  if (ip === undefined || ip === null || ip === '') {
    throw new TollgateError(
      'INVALID_KEY',
      'key cannot be made: the request has no client address: pass a key function that needs none',
    )
  }
  if (typeof ip === 'string') {
    if (IPV4.test(ip)) {
      return ip
    }
    const groups = groupsOf(ip.split('%', 1)[0] as string)
    if (groups !== undefined) {
      return isMapped(groups) ? mapped(groups) : network(groups, prefix)
    }
  }
  // The message does not quote the text, which may be anything.
  throw invalid('INVALID_KEY', 'key cannot be made: the client address', 'must be an IPv4 or IPv6 address', {})
}

function prefixOf(options: unknown): number {
  const { prefix = DEFAULT_PREFIX } = optionsOf('INVALID_OPTION', 'ipKey', options, ['prefix'])
  return wholeNumber('INVALID_OPTION', 'ipKey: prefix', prefix, 1, GROUPS * GROUP_BITS)
}

/** The eight numbers of an IPv6 address; `undefined` if the text is not one. */
function groupsOf(text: string): number[] | undefined {
  const halves = text.split('::')
  if (halves.length > 2) {
    return undefined
  }
  const isWhole = halves.length === 1
  const head = numbersOf(halves[0] as string, isWhole)
  const tail = isWhole ? [] : numbersOf(halves[1] as string, true)
  if (head === undefined || tail === undefined) {
    return undefined
  }
  const missing = GROUPS - head.length - tail.length
  // `::` replaces at least one group.
  if (isWhole ? missing !== 0 : missing < 1) {
    return undefined
  }
  return [...head, ...new Array<number>(missing).fill(0), ...tail]
}

/**
 * The numbers of groups separated by colons. The last two groups may be written as an IPv4 address.
 */
function numbersOf(text: string, isLast: boolean): number[] | undefined {
  if (text === '') {
    return []
  }
  const words = text.split(':')
  const last = words.at(-1) as string
  const isMixed = isLast && IPV4.test(last)
  const groups = isMixed ? words.slice(0, -1) : words
  if (!groups.every((word) => GROUP.test(word))) {
    return undefined
  }
  const numbers = groups.map((word) => Number.parseInt(word, 16))
  if (isMixed) {
    const [a, b, c, d] = last.split('.').map(Number) as [number, number, number, number]
    numbers.push(a * 256 + b, c * 256 + d)
  }
  return numbers
}

/** Whether an address is IPv4-mapped: `::ffff:0:0/96`. */
function isMapped(groups: readonly number[]): boolean {
  return groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
}

function mapped(groups: readonly number[]): string {
  const [high, low] = groups.slice(6) as [number, number]
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

/** The network of an address. It is not abbreviated, because it is only used as a key. */
function network(groups: readonly number[], prefix: number): string {
  const kept = groups.map((group, index) => {
    const bits = Math.min(GROUP_BITS, Math.max(0, prefix - index * GROUP_BITS))
    return (group & (0xffff << (GROUP_BITS - bits)) & 0xffff).toString(16)
  })
  return `${kept.join(':')}/${prefix}`
}
