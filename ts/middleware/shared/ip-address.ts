export const GROUPS = 8

export type Groups = readonly number[]

const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4 = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`)
const GROUP = /^[\da-f]{1,4}$/i

/** An address in brackets, perhaps with a port, or an IPv4 address with a port. */
const WITH_PORT = /^(?:\[([^[\]]+)\]|([^:[\]]+)(?=:))(?::(\d{1,5}))?$/

const MAX_PORT = 65_535

export function isIpv4(text: string): boolean {
  return IPV4.test(text)
}

/** The address of `IPv4:port`, `[IPv6]:port` or `[IPv6]`; any other text unchanged. */
export function withoutPort(text: string): string {
  const [, bracketed, plain, port = '0'] = WITH_PORT.exec(text) ?? []
  const isInvalid = Number(port) > MAX_PORT || bracketed?.includes(':') === false
  return isInvalid ? text : (bracketed ?? plain ?? text)
}

/** The numbers of an IPv6 address; `undefined` if the text is not one. */
export function groupsOf(text: string): Groups | undefined {
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

/** The numbers of groups separated by colons. The last two groups may be written as an IPv4 address. */
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

/** The prefixes of addresses that contain the IPv4 address of their client, and the index of its first group. */
const EMBEDDING: readonly { readonly prefix: Groups; readonly at: number; readonly isInverted?: boolean }[] = [
  // IPv4-mapped and IPv4-compatible, RFC 4291.
  { prefix: [0, 0, 0, 0, 0, 0xffff], at: 6 },
  { prefix: [0, 0, 0, 0, 0, 0], at: 6 },
  // IPv4-translated, for SIIT, RFC 2765.
  { prefix: [0, 0, 0, 0, 0xffff, 0], at: 6 },
  // NAT64, RFC 6052, and the usual prefix for local use, RFC 8215.
  { prefix: [0x64, 0xff9b, 0, 0, 0, 0], at: 6 },
  { prefix: [0x64, 0xff9b, 1, 0, 0, 0], at: 6 },
  // 6to4, RFC 3056.
  { prefix: [0x2002], at: 1 },
  // Teredo, RFC 4380: the bits of the client's address are inverted.
  { prefix: [0x2001, 0], at: 6, isInverted: true },
]

/** The IPv4 address of the client that an IPv6 address contains, if it contains one. */
export function embeddedIpv4(groups: Groups): string | undefined {
  const found = EMBEDDING.find(({ prefix }) => startsWith(groups, prefix))
  // `::` and `::1` are addresses of IPv6 itself.
  if (found === undefined || groups.slice(0, -1).every((group) => group === 0)) {
    return undefined
  }
  const octets = groups.slice(found.at, found.at + 2).flatMap((group) => {
    const bits = found.isInverted ? group ^ 0xffff : group
    return [bits >> 8, bits & 255]
  })
  return octets.join('.')
}

/** Whether an address is of the prefix for local NAT64 (RFC 8215), where operators place the IPv4 address. */
export function isLocalNat64(groups: Groups): boolean {
  return startsWith(groups, [0x64, 0xff9b, 1])
}

function startsWith(groups: Groups, prefix: Groups): boolean {
  return prefix.every((group, index) => group === groups[index])
}
