import { TollgateError } from '../../api/error.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../../input/options.js'

/** The options of {@link ipKey}. */
export interface IpKeyOptions {
  /**
   * How many leading bits of an IPv6 address make the key: a whole number from 1 to 128. Default: 56, since a
   * home or an office is given at least a /64, and mostly a /56.
   */
  readonly prefix?: number
}

/** The bits of an IPv6 address that make a key. */
const DEFAULT_PREFIX = 56

/** The parts of an IPv6 address, and their bits. */
const GROUPS = 8
const GROUP_BITS = 16

const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4 = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`)
const GROUP = /^[\da-f]{1,4}$/i

/**
 * The key of a client address: an IPv4 address as it is; of an IPv6 address the network, since whoever has one
 * address has the whole network, and could otherwise come from a new one each time. An IPv4 address in the form of
 * IPv6 (`::ffff:192.0.2.1`) is that IPv4 address, and a zone (`%eth0`) is left out.
 *
 * It reads the text that it is given, which must come from somebody trusted: a client can write what it likes
 * into `X-Forwarded-For`.
 *
 * @param ip - The address. That there is none is an error, and not one key for all who have none.
 * @throws {TollgateError} `INVALID_KEY` if it is no IP address; `INVALID_OPTION`.
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
      'key cannot be made: the request has no client address: give a key function that needs none',
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
  // The text may be anything, and is not told.
  throw invalid('INVALID_KEY', 'key cannot be made: the client address', 'must be an IPv4 or IPv6 address', {})
}

function prefixOf(options: unknown): number {
  const { prefix = DEFAULT_PREFIX } = optionsOf('INVALID_OPTION', 'ipKey', options, ['prefix'])
  return wholeNumber('INVALID_OPTION', 'ipKey: prefix', prefix, 1, GROUPS * GROUP_BITS)
}

/** The eight numbers of an IPv6 address; `undefined` if it is none. */
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
  // `::` stands for at least one group.
  if (isWhole ? missing !== 0 : missing < 1) {
    return undefined
  }
  return [...head, ...new Array<number>(missing).fill(0), ...tail]
}

/** The numbers of groups with colons between them; the last two may be written as an IPv4 address. */
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

/** Whether an address is an IPv4 address in the form of IPv6: `::ffff:0:0/96`. */
function isMapped(groups: readonly number[]): boolean {
  return groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
}

function mapped(groups: readonly number[]): string {
  const [high, low] = groups.slice(6) as [number, number]
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

/** The network of an address, without abbreviations: only keys are made of it. */
function network(groups: readonly number[], prefix: number): string {
  const kept = groups.map((group, index) => {
    const bits = Math.min(GROUP_BITS, Math.max(0, prefix - index * GROUP_BITS))
    return (group & (0xffff << (GROUP_BITS - bits)) & 0xffff).toString(16)
  })
  return `${kept.join(':')}/${prefix}`
}
