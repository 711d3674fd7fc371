import { invalid } from './options.js'

/** The same text for equal keys: the parts of a key may come in any order. */
export function nameOfKey(key: unknown): string {
  try {
    const parts = typeof key === 'object' && key !== null ? Object.entries(key).sort(byName) : key
    return JSON.stringify(parts) ?? String(key)
  } catch {
    throw invalid('INVALID_KEY', 'key', 'must be a key of the limiter', key)
  }
}

function byName([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : 1
}
