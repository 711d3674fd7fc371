import { ipKey } from '../../../middleware/shared/ip-key.js'
import { checked, wrongUsage } from '../../failure.js'
import { FIELDS, type Field, type Line } from './line.js'

/** What `--key` says: one part, or several joined by `+`. */
export interface KeySpec {
  /** As it was written. */
  readonly text: string
  /** The key of a line; `undefined` if it has none, because a part is missing. */
  read(line: Line): string | undefined
  /** Makes the key that is counted of one that was read, once for each that is new. */
  refine(key: string): string
}

/** For the help. */
export const KEY_RULE = `a field (${FIELDS.join(', ')}), a JSON field by its path (headers.x-api-key), a regular \
expression on the line whose first group is the key (/api_key=(\\w+)/), or several of these joined by + (ip+path)`

type Part = (line: Line) => string | undefined

/** Between the parts of a key. No field has it: servers write control characters as escapes. */
const JOINT = '\u001f'

/** How long a key of tollgate may be: bytes of UTF-8. */
const MOST_BYTES = 1_024

/**
 * @param ipv6Prefix - The leading bits of an IPv6 address that make a key, as in the middleware.
 * @throws {CommandFailure}
 */
export function keySpecOf(text: string, ipv6Prefix: number): KeySpec {
  const texts = partsOf(text)
  const parts = texts.map((part) => partOf(part))
  const refiners = texts.map((part) => (part === 'ip' ? (ip: string) => network(ip, ipv6Prefix) : unchanged))
  const [only] = parts
  if (only !== undefined && parts.length === 1) {
    return { text, read: only, refine: refiners[0] as typeof unchanged }
  }
  return {
    text,
    read: (line) => {
      const values = parts.map((part) => part(line))
      return values.includes(undefined) ? undefined : values.join(JOINT)
    },
    refine: (key) => {
      const values = key.split(JOINT)
      return values.map((value, index) => (refiners[index] ?? unchanged)(value)).join(' ')
    },
  }
}

/** Whether tollgate would take a text as a key. */
export function isKey(key: string): boolean {
  return key !== '' && (key.length * 3 <= MOST_BYTES || Buffer.byteLength(key) <= MOST_BYTES)
}

/** Splits at `+`, but not within a regular expression. */
function partsOf(text: string): string[] {
  const parts = text.match(/\/(?:[^\\/]|\\.)*\/[a-z]*|[^+]+/g) ?? []
  if (parts.join('+') !== text) {
    throw wrongUsage(`--key ${JSON.stringify(text)} must be ${KEY_RULE}`)
  }
  return parts
}

function partOf(text: string): Part {
  if ((FIELDS as readonly string[]).includes(text)) {
    return (line) => line.field(text as Field)
  }
  const [, source, flags] = /^\/(.*)\/([a-z]*)$/.exec(text) ?? []
  if (source !== undefined) {
    const pattern = patternOf(source, flags)
    return (line) => {
      const match = pattern.exec(line.whole)
      return match === null ? undefined : (match[1] ?? match[0])
    }
  }
  const path = text.split('.')
  return (line) => line.at(path)
}

function patternOf(source: string, flags = ''): RegExp {
  if (!/^[imsu]*$/.test(flags)) {
    throw wrongUsage(`--key: a regular expression may have the flags i, m, s and u, got ${JSON.stringify(flags)}`)
  }
  try {
    return new RegExp(source, flags)
  } catch (error) {
    throw wrongUsage(`--key: ${(error as Error).message}`)
  }
}

function unchanged(key: string): string {
  return key
}

/** The network of an IPv6 address, as the middleware counts it; what is no address, such as a host's name, as it is. */
function network(ip: string, prefix: number): string {
  if (!ip.includes(':')) {
    return ip
  }
  try {
    return ipKey(ip, { prefix })
  } catch {
    return ip
  }
}

/** Takes the value of `--ipv6-prefix`. */
export function prefixOf(bits: number): number {
  checked('--ipv6-prefix', () => ipKey('::1', { prefix: bits }))
  return bits
}
