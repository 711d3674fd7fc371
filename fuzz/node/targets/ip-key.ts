/** Client addresses: an error is an `INVALID_KEY` without the text; a key is a key of itself. */
import { isIP } from 'node:net'
import { TollgateError } from '../../../ts/api/error.js'
import { ipKey } from '../../../ts/middleware/shared/ip-key.js'

export const maxLength = 128

export const dictionary = ['::', ':', '.', 'ffff:', '192.0.2.1', '2001:db8', '%eth0', '0', '255', '256', 'f', '/56']

export const examples = ['192.0.2.1', '2001:db8:0:7f01::1', '::ffff:192.0.2.1', 'fe80::1%eth0', '1:2:3:4:5:6:1.2.3.4']

export function run(input: Buffer): void {
  const text = input.toString('utf8')
  // Node.js knows which texts are addresses. Only a zone makes a difference: any text is one.
  const isAddress = isIP(text.split('%', 1)[0] as string) === 6 || isIP(text) === 4
  for (const prefix of [1, 17, 56, 64, 128]) {
    try {
      const key = ipKey(text, { prefix })
      if (!isAddress) {
        throw new Error(`${JSON.stringify(text)} is no address and has the key ${key}`)
      }
      const [network = ''] = key.split('/')
      if (isIP(network) === 0 || ipKey(network, { prefix }) !== key) {
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
