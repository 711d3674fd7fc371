import type { Decision } from '../api/decision.js'

export interface Block {
  /** Its end by the deciding clock, in whole epoch milliseconds, rounded up. */
  readonly until: number
  /** The number of the ban's length; 0 if the block is no ban. */
  readonly step: number
}

/** The blocks that refused a call, by the name of the limit. */
export type Blocks = ReadonlyMap<string, Block>

/** Few decisions have blocks, and a caller must not see those of other keys in the decision itself. */
const blocksByDecision = new WeakMap<Decision, Blocks>()

/** The blocks that refused a call; `undefined` if the store did not report them. */
export function blocksOf(decision: Decision): Blocks | undefined {
  return blocksByDecision.get(decision)
}

/** Attaches blocks to a decision with the status `'blocked'`, and its ban. */
export function withBlocks(decision: Decision, blocks: Blocks): Decision {
  blocksByDecision.set(decision, blocks)
  const ban = banOf(blocks)
  // Not a copy: the metadata of copied decisions takes 10 µs.
  return ban === undefined ? decision : Object.assign(decision, { ban })
}

function banOf(blocks: Blocks): Block | undefined {
  let latest: Block | undefined
  for (const { until, step } of blocks.values()) {
    if (step > 0 && (latest === undefined || until > latest.until)) {
      latest = { step, until }
    }
  }
  return latest
}
