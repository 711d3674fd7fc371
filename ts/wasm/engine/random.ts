import { TollgateError } from '../../api/error.js'

let isRandom = false

/**
 * Sees to it that there are random numbers when the engine draws its first, which it does amid a decision. (Cloudflare's
 * Workers have none while a program is loaded.)
 */
export function checkRandom(): void {
  if (isRandom) {
    return
  }
  try {
    crypto.getRandomValues(new Uint8Array(1))
  } catch (cause) {
    const rule = 'the platform gives no random numbers now: ask while a request is handled'
    throw new TollgateError('STORE_ERROR', rule, { cause })
  }
  isRandom = true
}
