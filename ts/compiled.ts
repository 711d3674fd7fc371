import * as native from '../native.js'
import { microsOf } from './duration.js'
import { translated } from './options.js'
import type { Policy } from './policy.js'

/**
 * The policy as the engine has it.
 *
 * @throws {TollgateError} `INVALID_POLICY` for numbers that cannot be counted exactly.
 */
export function compiled(policy: Policy): native.Policy {
  return translated('INVALID_POLICY', `${policy.algorithm}:`, () => compile(policy))
}

function compile(policy: Policy): native.Policy {
  switch (policy.algorithm) {
    case 'fixedWindow':
      return native.Policy.fixedWindow(policy.limit, microsOf(policy.window))
    case 'tokenBucket':
      return native.Policy.tokenBucket(policy.capacity, policy.refill.tokens, microsOf(policy.refill.every))
    case 'gcra':
      return native.Policy.gcra(policy.limit, microsOf(policy.period), policy.burst)
  }
}
