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
      const forms = [ip, `::ffff:${ip}`, `::FFFF:${ip}`, `0:0:0:0:0:ffff:${ip}`, `::ffff:${high}:${low}`]
      expect(new Set(forms.map((form) => ipKey(form)))).toEqual(new Set([ip]))
    }),
    cases(100),
  )
})

test('two IPv6 addresses have one key if and only if node:net puts them in one network', () => {
  fc.assert(
    fc.property(address, address, fc.integer({ min: 1, max: 128 }), (one, other, prefix) => {
      fc.pre(![one, other].some((ip) => /^(::|0+(:0+){4}:)ffff:/i.test(ip)))
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
        fc.pre(groups.slice(0, 5).some((group) => group !== 0))
        expect(ipKey(write(other))).toBe(ipKey(write(groups)))
        expect(ipKey(write(groups), { prefix: 56 })).toBe(ipKey(write(groups)))
      },
    ),
    cases(100),
  )
  expect(ipKey('2001:db8:0:7f01::1')).not.toBe(ipKey('2001:db8:0:7e01::1'))
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
  for (const ip of [undefined, null, '', 'localhost', '192.0.2.1:80', '[::1]', '192.0.2.1, 192.0.2.2']) {
    let message = ''
    try {
      ipKey(ip)
    } catch (error) {
      expect(error).toMatchObject({ code: 'INVALID_KEY' })
      message = (error as Error).message
    }
    expect(message).toContain('client address')
    expect(message).not.toMatch(/localhost|192|::1/)
  }
})

test.each([0, 129, 56.5, '56'])('a prefix of %p is invalid', (prefix) => {
  expect(() => ipKey('::1', { prefix: prefix as number })).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
})
