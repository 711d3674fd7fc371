import { OPERATION_CODES } from '../../backends/operation.js'

/** The operation codes of `src/wasm/operation_reader.rs`. */
export const ENGINE_OPERATION_CODES = {
  ...OPERATION_CODES,
  refund: 8,
  settle: 9,
  override: 10,
  schedule: 11,
  cancelScheduled: 12,
  reserve: 13,
  settleHold: 14,
} as const
