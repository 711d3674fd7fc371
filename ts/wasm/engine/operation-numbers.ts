import { OPERATION_CODES } from '../../backends/operation.js'

/** The numbers of operations in `src/wasm/operation_reader.rs`. */
export const CODES = {
  ...OPERATION_CODES,
  refund: 8,
  settle: 9,
  override: 10,
  book: 11,
  unbook: 12,
  reserve: 13,
  settleHold: 14,
} as const
