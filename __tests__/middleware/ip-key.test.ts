import { BlockList, isIP, isIPv6 } from 'node:net'
import fc from 'fast-check'
import { ipKey } from '../../ts/middleware/shared/ip-key.js'
import { cases } from '../cases.js'

const address = fc.ipV6()
const ipv4 = fc.ipV4()

test('all forms of an IPv4 address give the same key', () => {
  fc.assert(
    fc.property(ipv4, (ip) => {
      const [a, b, c, d] = ip.split('.').map(Number) as [number, number, number, number]
      const [high, low] = [a * 256 + b, c * 256 + d].map((number) => number.toString(16))
      const forms = [
        ...[ip, `::ffff:${ip}`, `::FFFF:${ip}`, `0:0:0:0:0:ffff:${ip}`, `::ffff:${high}:${low}`],
        // SIIT, NAT64, and NAT64 for local use.
        ...[`::ffff:0:${ip}`, `64:ff9b::${ip}`, `64:FF9B:0::${high}:${low}`, `64:ff9b:1::${ip}`],
        // 6to4, and Teredo, which inverts the bits.
        ...[`2002:${high}:${low}::1`, `2002:${high}:${low}:1:2:3:4:5`],
        `2001:0:4136:e378:8000:63bf:${((a * 256 + b) ^ 0xffff).toString(16)}:${((c * 256 + d) ^ 0xffff).toString(16)}`,
      ]
      expect(new Set(forms.map((form) => ipKey(form)))).toEqual(new Set([ip]))
      // The IPv4-compatible form, except of addresses that no client has, such as `::1`.
      fc.pre(a > 0)
      expect(ipKey(`::${ip}`)).toBe(ip)
    }),
    cases(100),
  )
})

/** The prefixes of IPv6 addresses that do not stand for a network of one client. */
const EMBEDDING = new BlockList()
for (const [prefix, bits] of [
  ['::', 96],
  ['::ffff:0:0', 96],
  ['::ffff:0:0:0', 96],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['2002::', 16],
  ['2001::', 32],
] as const) {
  EMBEDDING.addSubnet(prefix, bits, 'ipv6')
}

test('two IPv6 addresses have one key if and only if node:net puts them in one network', () => {
  fc.assert(
    fc.property(address, address, fc.integer({ min: 1, max: 128 }), (one, other, prefix) => {
      fc.pre(![one, other].some((ip) => EMBEDDING.check(ip, 'ipv6')))
      const network = new BlockList()
      network.addSubnet(one, prefix, 'ipv6')
      expect(ipKey(one, { prefix }) === ipKey(other, { prefix })).toBe(network.check(other, 'ipv6'))
    }),
    cases(2_000),
  )
})

test('addresses that differ only after the prefix have one key; the default prefix is /56', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 }),
      fc.nat(0xff),
      (groups, bits) => {
        const write = (numbers: readonly number[]) => numbers.map((number) => number.toString(16)).join(':')
        const other = [...groups.slice(0, 3), ((groups[3] as number) & 0xff00) | bits, 1, 2, 3, 4]
        fc.pre(!EMBEDDING.check(write(groups), 'ipv6'))
        expect(ipKey(write(other))).toBe(ipKey(write(groups)))
        expect(ipKey(write(groups), { prefix: 56 })).toBe(ipKey(write(groups)))
      },
    ),
    cases(100),
  )
  expect(ipKey('2001:db8:0:7f01::1')).not.toBe(ipKey('2001:db8:0:7e01::1'))
})

test('a port, brackets, a zone and spaces change no key', () => {
  fc.assert(
    fc.property(address, ipv4, fc.integer({ min: 0, max: 65_535 }), (six, four, port) => {
      const forms = [`[${six}]`, `[${six}]:${port}`, `${six}%eth0`, `[${six}%25eth0]:${port}`, ` ${six} `]
      expect(new Set(forms.map((form) => ipKey(form)))).toEqual(new Set([ipKey(six)]))
      expect([`${four}:${port}`, `\t${four}`].map((form) => ipKey(form))).toEqual([four, four])
      // An independent parser finds the same address.
      const { hostname } = new URL(`http://[${six}]:${port}/`)
      expect(ipKey(hostname)).toBe(ipKey(six))
    }),
    cases(500),
  )
})

test('addresses of the prefix for local NAT64 share no key, wherever they contain the IPv4 address', () => {
  const clients = ['64:ff9b:1:cb00:71:700::', '64:ff9b:1:cb00:71:800::', '64:ff9b:1:2:cb:71:700:0']
  expect(new Set(clients.map((ip) => ipKey(ip))).size).toBe(3)
})

test('addresses of IPv6 itself stay addresses of IPv6', () => {
  expect(ipKey('::1', { prefix: 128 })).toBe('0:0:0:0:0:0:0:1/128')
  expect(ipKey('::', { prefix: 128 })).toBe('0:0:0:0:0:0:0:0/128')
})

test('a long text is rejected in linear time', () => {
  // A million characters: a search that tries each pair of places would not end.
  for (const unit of ['[', ':', '[:', '1.', '%', ' ', 'a:']) {
    const text = unit.repeat(1_000_000 / unit.length)
    expect(() => ipKey(text)).toThrow(expect.objectContaining({ code: 'INVALID_KEY' }))
    expect(() => ipKey(`[${text}`)).toThrow(expect.objectContaining({ code: 'INVALID_KEY' }))
  }
})

test('exactly the addresses that node:net accepts have a key', () => {
  const texts = fc.oneof(
    fc.string({ unit: fc.constantFrom(...'0123456789abcdefF:.'), maxLength: 45 }),
    address,
    ipv4,
    fc.tuple(address, ipv4).map(([six, four]) => `${six}:${four}`),
    fc
      .tuple(fc.constantFrom('::', '1::', '1:2:3:4:5:6:', '::1:', '1:2:3:4:5::'), ipv4)
      .map(([six, four]) => six + four),
    fc.constantFrom(
      '',
      ':',
      '::',
      ':::',
      '::1',
      '1::',
      '1:2:3:4:5:6:7:8',
      '1:2:3:4:5:6:7::',
      '1::2::3',
      '1.2.3',
      '01.2.3.4',
    ),
  )
  fc.assert(
    fc.property(texts, (text) => {
      let key: string | undefined
      try {
        key = ipKey(text)
      } catch (error) {
        expect(error).toMatchObject({ code: 'INVALID_KEY' })
      }
      expect(key !== undefined).toBe(isIP(text) !== 0)
    }),
    cases(5_000),
  )
})

test('the key leaves the zone out', () => {
  expect(isIPv6('fe80::1%eth0')).toBe(true)
  expect(ipKey('fe80::1%eth0')).toBe(ipKey('fe80::1'))
})

test('an invalid address is an error that does not reveal the value', () => {
  const mistakes: readonly (readonly [unknown, RegExp])[] = [
    [undefined, /has no client address/],
    [null, /has no client address/],
    ['', /has no client address/],
    [7, /must be a text, got 7/],
    ['localhost', /no IPv4 or IPv6 address, .*host name/],
    ['localhost:80', /host name/],
    ['unknown', /host name/],
    ['192.0.2.1:', /no IPv4/],
    ['192.0.2.1:65536', /no IPv4/],
    ['192.0.2.1:80:80', /no IPv4/],
    ['[192.0.2.1]:80', /no IPv4/],
    ['[::1', /no IPv4/],
    ['[::1]:', /no IPv4/],
    ['[::1]80', /no IPv4/],
    ['[[::1]]', /no IPv4/],
    ['0x7f.0.0.1', /no IPv4/],
    ['192.0.2.1, 192.0.2.2', /is a list of addresses: pass the one that your own proxy has written/],
    ['192.0.2.0/24', /is a network/],
  ]
  for (const [ip, expected] of mistakes) {
    let message = ''
    try {
      ipKey(ip as string)
    } catch (error) {
      expect(error).toMatchObject({ code: 'INVALID_KEY' })
      message = (error as Error).message
    }
    expect(message).toContain('client address')
    expect(message).toMatch(expected)
    expect(message).not.toMatch(/localhost|192|::1/)
  }
})

test.each([0, 129, 56.5, '56'])('a prefix of %p is invalid', (prefix) => {
  expect(() => ipKey('::1', { prefix: prefix as number })).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
})
