/** Client addresses: an error is an `INVALID_KEY` without the text; a key is a key of itself. */
import { isIP } from 'node:net'
import { TollgateError } from '../../../../ts/api/error.js'
import { ipKey } from '../../../../ts/middleware/shared/ip-key.js'

export const maxLength = 128

export const dictionary = [
  '[',
  ']:443',
  ':61598',
  '64:ff9b::',
  '::',
  ':',
  '.',
  'ffff:',
  '192.0.2.1',
  '2001:db8',
  '%eth0',
  '0',
  '255',
  '256',
  'f',
  '/56',
]

export const examples = ['192.0.2.1', '2001:db8:0:7f01::1', '::ffff:192.0.2.1', 'fe80::1%eth0', '1:2:3:4:5:6:1.2.3.4']

export function run(input: Buffer): void {
  const text = input.toString('utf8')
  const address = withoutPort(text.trim())
  // Node.js knows which texts are addresses. Only a zone makes a difference: any text is one.
  const isAddress = isIP(address.split('%', 1)[0] as string) === 6 || isIP(address) === 4
  for (const prefix of [1, 17, 56, 64, 128]) {
    try {
      const key = ipKey(text, { prefix })
      if (!isAddress) {
        throw new Error(`${JSON.stringify(text)} is no address and has the key ${key}`)
      }
      const [network = ''] = key.split('/')
      // A shorter prefix may end in one whose addresses contain an IPv4 address.
      const isWhole = isIP(network) === 4 || prefix === 128
      if (isIP(network) === 0 || (isWhole && ipKey(network, { prefix }) !== key)) {
        throw new Error(`the key of ${key} is another`)
      }
    } catch (error) {
      if (!(error instanceof TollgateError) || error.code !== 'INVALID_KEY') {
        throw error
      }
      if (isAddress) {
        throw new Error(`${JSON.stringify(text)} is an address and has no key`, { cause: error })
      }
      if (text.length > 3 && error.message.includes(text)) {
        throw new Error('the message has the text', { cause: error })
      }
    }
  }
}

/** An address without its port and its brackets, as proxies write them. */
function withoutPort(text: string): string {
  const [, six, sixPort] = /^\[([^[\]]*:[^[\]]*)\](?::(\d{1,5}))?$/.exec(text) ?? []
  const [, four, fourPort] = /^([\d.]+):(\d{1,5})$/.exec(text) ?? []
  return Number(sixPort ?? fourPort ?? 0) > 65_535 ? text : (six ?? four ?? text)
}
