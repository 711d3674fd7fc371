import { isTooLong } from '../../../input/keys.js'
import { ipKey } from '../../../middleware/shared/ip-key.js'
import { asUsageError, usageError } from '../../failure.js'
import { FIELDS, type LogField, type LogLine } from './line.js'

/** The parsed `--key`. */
export interface KeySpec {
  readonly text: string
  /** The key of a line; `undefined` if a part is missing. */
  read(line: LogLine): string | undefined
  /** Normalizes a key. A normalized key stays unchanged. Called once for each new key. */
  refine(key: string): string
}

/** For the help. */
export const KEY_RULE = `a field (${FIELDS.join(', ')}), a JSON field by its path (headers.x-api-key), a regular \
expression on the line whose first group is the key (/api_key=(\\w+)/), or several of these joined by + (ip+path)`

type KeyPartReader = (line: LogLine) => string | undefined

/** Separates the parts of a key. It cannot occur in a field: servers escape control characters. */
const SEPARATOR = '\u001f'

/** `ipv6Prefix`: the leading bits of an IPv6 address that make a key, as in the middleware. */
export function keySpecOf(text: string, ipv6Prefix: number): KeySpec {
  const texts = partsOf(text)
  const parts = texts.map((part) => partOf(part))
  const refiners = texts.map((part) => (part === 'ip' ? (ip: string) => addressKey(ip, ipv6Prefix) : unchanged))
  const [single] = parts
  if (single !== undefined && parts.length === 1) {
    return { text, read: single, refine: refiners[0] as typeof unchanged }
  }
  return {
    text,
    read: (line) => {
      const values = parts.map((part) => part(line))
      return values.includes(undefined) ? undefined : values.join(SEPARATOR)
    },
    refine: (key) => {
      const values = key.split(SEPARATOR)
      return values.map((value, index) => (refiners[index] ?? unchanged)(value)).join(' ')
    },
  }
}

export function isKey(key: string): boolean {
  return key !== '' && !isTooLong(key)
}

/** Splits at `+`, except inside a regular expression. */
function partsOf(text: string): string[] {
  const parts = text.match(/\/(?:[^\\/]|\\.)*\/[a-z]*|[^+]+/g) ?? []
  if (parts.join('+') !== text) {
    throw usageError(`--key ${JSON.stringify(text)} must be ${KEY_RULE}`)
  }
  return parts
}

function partOf(text: string): KeyPartReader {
  if ((FIELDS as readonly string[]).includes(text)) {
    return (line) => line.field(text as LogField)
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
    throw usageError(`--key: a regular expression may have the flags i, m, s and u, got ${JSON.stringify(flags)}`)
  }
  try {
    return new RegExp(source, flags)
  } catch (error) {
    throw usageError(`--key: ${(error as Error).message}`)
  }
}

function unchanged(key: string): string {
  return key
}

/** The key of an address, as in the middleware. Other texts, such as a host name, stay unchanged. */
function addressKey(ip: string, prefix: number): string {
  try {
    return ipKey(ip, { prefix })
  } catch {
    return ip
  }
}

export function prefixOf(bits: number): number {
  asUsageError('--ipv6-prefix', () => ipKey('::1', { prefix: bits }))
  return bits
}
