import { TollgateError } from '../../api/error.js'
import { checkCount, invalid, optionsOf, wholeNumber } from '../../input/options.js'
import { embeddedIpv4, GROUPS, type Groups, groupsOf, isIpv4, isLocalNat64, withoutPort } from './ip-address.js'

/** The options of {@link ipKey}. */
export interface IpKeyOptions {
  /**
   * The number of leading bits of an IPv6 address that make the key: a whole number from 1 to 128. Default: 56, because
   * a home or an office gets at least a /64, and usually a /56.
   */
  readonly prefix?: number
}

const DEFAULT_PREFIX = 56

const GROUP_BITS = 16

/**
 * Makes a key from a client address.
 *
 * - An IPv4 address is its own key.
 * - The key of an IPv6 address is its network: a client that has one address has the whole network, and could otherwise
 *   use a new address for each request.
 * - An IPv6 address that contains the IPv4 address of its client has the key of that IPv4 address: IPv4-mapped
 *   (`::ffff:192.0.2.1`), IPv4-compatible, SIIT, NAT64, 6to4 and Teredo. Otherwise all IPv4 clients behind a translator
 *   would share one key.
 * - A port (`192.0.2.1:61598`, `[2001:db8::1]:443`), brackets, a zone (`%eth0`) and spaces around the address are
 *   ignored. Some load balancers write ports into `X-Forwarded-For`.
 *
 * Pass only an address from a trusted source: a client can write anything into `X-Forwarded-For`. A missing address is
 * an error, so that clients without an address do not share one key.
 *
 * @throws {TollgateError} `INVALID_KEY` if `ip` is not an IP address; `INVALID_OPTION`.
 *
 * @example
 * ipKey('::ffff:192.0.2.1')            // 192.0.2.1
 * ipKey('192.0.2.1:61598')             // 192.0.2.1
 * ipKey('2001:db8:0:7f01::1')          // 2001:db8:0:7f00:0:0:0:0/56
 * ipKey('2001:db8::1', { prefix: 64 }) // 2001:db8:0:0:0:0:0:0/64
 */
export function ipKey(ip: string | null | undefined, options?: IpKeyOptions): string {
  const rule = 'ipKey takes an address and an object of options'
  checkCount(arguments.length, 2, rule, 'in a map, write (ip) => ipKey(ip)')
  const prefix = options === undefined ? DEFAULT_PREFIX : prefixOf(options)
  if (ip === undefined || ip === null || ip === '') {
    const advice = 'the request has no client address: pass a key function that needs none'
    throw new TollgateError('INVALID_KEY', `key cannot be made: ${advice}`)
  }
  if (typeof ip !== 'string') {
    throw invalid('INVALID_KEY', 'key cannot be made: the client address', 'must be a text', ip)
  }
  // Most addresses have this form.
  if (isIpv4(ip)) {
    return ip
  }
  const address = withoutPort(ip.trim())
  if (isIpv4(address)) {
    return address
  }
  const groups = groupsOf(address.split('%', 1)[0] as string)
  if (groups === undefined) {
    throw new TollgateError('INVALID_KEY', `key cannot be made: the client address ${mistakeIn(ip)}`)
  }
  return embeddedIpv4(groups) ?? network(groups, isLocalNat64(groups) ? GROUPS * GROUP_BITS : prefix)
}

/** The reason why a text is no address. It does not quote the text, which may be anything. */
function mistakeIn(text: string): string {
  if (text.includes(',')) {
    return 'is a list of addresses: pass the one that your own proxy has written, usually the last'
  }
  if (text.includes('/')) {
    return 'is a network or a URL: pass one address'
  }
  return 'is a text that is no IPv4 or IPv6 address, with or without a port, such as a host name'
}

function prefixOf(options: unknown): number {
  const { prefix = DEFAULT_PREFIX } = optionsOf('INVALID_OPTION', 'ipKey', options, ['prefix'])
  return wholeNumber('INVALID_OPTION', 'ipKey: prefix', prefix, 1, GROUPS * GROUP_BITS)
}

/** The network of an address. It is not abbreviated, because it is only used as a key. */
function network(groups: Groups, prefix: number): string {
  const kept = groups.map((group, index) => {
    const bits = Math.min(GROUP_BITS, Math.max(0, prefix - index * GROUP_BITS))
    return (group & (0xffff << (GROUP_BITS - bits)) & 0xffff).toString(16)
  })
  return `${kept.join(':')}/${prefix}`
}
