import { TollgateError } from '../../api/error.js'

let isRandom = false

/** Checks that there are random numbers. Cloudflare Workers have none while a program is loaded. */
export function checkRandom(): void {
  if (isRandom) {
    return
  }
  try {
    crypto.getRandomValues(new Uint8Array(1))
  } catch (cause) {
    const rule = 'the platform has no random numbers now: call while a request is handled'
    throw new TollgateError('STORE_ERROR', rule, { cause })
  }
  isRandom = true
}
