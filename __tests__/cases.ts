/**
 * The cases of a property test: their number and their seed. In Rust, `tests/engine/cases.rs` has
 * the number, and `.cargo/config.toml` the seed.
 */

const { TOLLGATE_CASES = '100', TOLLGATE_SEED = '1' } = process.env

/** The seed of all random cases: always the same, unless `TOLLGATE_SEED` sets another. */
export const SEED = wholeNumber('TOLLGATE_SEED', TOLLGATE_SEED, 0)

/**
 * `count` cases, or the percentage of them that `TOLLGATE_CASES` sets: 10 for a quick run, 1000 for a long one. At least
 * one case.
 */
export function cases(count: number): { readonly numRuns: number; readonly seed: number } {
  return { numRuns: Math.ceil((count * wholeNumber('TOLLGATE_CASES', TOLLGATE_CASES, 1)) / 100), seed: SEED }
}

function wholeNumber(name: string, text: string, min: number): number {
  const number = Number(text)
  if (text.trim() === '' || !Number.isSafeInteger(number) || number < min) {
    throw new Error(`${name} must be a whole number from ${min}, got "${text}"`)
  }
  return number
}
