/** The number of cases that a property test runs. `engine-tests/cases.rs` is the same in Rust. */

const { TOLLGATE_CASES = '100' } = process.env

/**
 * `count` cases, or the percentage of them that `TOLLGATE_CASES` sets: 10 for a quick run, 1000 for a long one. At least
 * one case.
 */
export function cases(count: number): { readonly numRuns: number } {
  const percent = Number(TOLLGATE_CASES)
  if (!Number.isSafeInteger(percent) || percent < 1) {
    throw new Error(`TOLLGATE_CASES must be a percentage, a whole number from 1, got "${TOLLGATE_CASES}"`)
  }
  return { numRuns: Math.ceil((count * percent) / 100) }
}
