import { TollgateError } from '../../api/error.js'
import { isTooLong } from '../../input/keys.js'
import { isWellFormed } from '../../input/utf8.js'

/** The start of a digest that replaces a key. */
const PREFIX = 'long-key:sha256:'

const DIGEST = /^long-key:sha256:[\da-f]{64}$/

/** The parts of Web Crypto and of the Encoding API that are used. */
interface Digests {
  readonly crypto: { readonly subtle: { digest(algorithm: 'SHA-256', data: Uint8Array): Promise<ArrayBuffer> } }
  readonly TextEncoder: new () => { encode(text: string): Uint8Array }
}

/**
 * The key to use in place of a key from a request: the key itself, or a promise of a copy in which each string that is
 * too long for the limiter is replaced by its SHA-256 digest. A string that looks like such a digest is replaced, too.
 * So no client can choose a short key that counts for the long key of another.
 */
export function withoutLongStrings(key: unknown): unknown {
  if (typeof key === 'string') {
    return isReplaced(key) ? digestOf('key', key) : key
  }
  if (typeof key !== 'object' || key === null || Array.isArray(key)) {
    // The limiter rejects it, or reads its keys.
    return key
  }
  for (const part in key) {
    if (isReplaced((key as Record<string, unknown>)[part])) {
      return withDigests(key as Record<string, unknown>)
    }
  }
  return key
}

async function withDigests(key: Record<string, unknown>): Promise<Record<string, unknown>> {
  const parts = Object.entries(key).map(async ([part, value]) => {
    return [part, isReplaced(value) ? await digestOf(`key.${part}`, value) : value] as const
  })
  return Object.fromEntries(await Promise.all(parts))
}

function isReplaced(value: unknown): value is string {
  return typeof value === 'string' && (isTooLong(value) || (value.startsWith(PREFIX) && DIGEST.test(value)))
}

/** @param name - The name of the key or of its part, for the message. */
async function digestOf(name: string, text: string): Promise<string> {
  if (!isWellFormed(text)) {
    // UTF-8 has no form of it: two different keys would have one digest.
    throw new TollgateError('INVALID_KEY', `${name} must be a well-formed string, got one with a lone surrogate`)
  }
  const { crypto, TextEncoder } = globalThis as unknown as Digests
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))
  return PREFIX + Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
