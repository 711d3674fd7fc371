import { invalid } from '../input/options.js'

/** The same text for equal keys. */
export function nameOfKey(key: unknown): string {
  try {
    return JSON.stringify(key) ?? String(key)
  } catch {
    throw invalid('INVALID_KEY', 'key', 'must be a key of the limiter', key)
  }
}
