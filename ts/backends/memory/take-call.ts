import type { Engine, EngineLimiterState } from '../engine.js'
import { RESPONSE_LENGTH } from '../response.js'

/** A call of the engine's `take`: write `index` to `limiterIndex`, then call `take`. */
export interface TakeCall {
  readonly take: (key: string, cost?: number, epochMs?: number) => void
  readonly limiterIndex: Uint32Array
  readonly index: number
  /** The buffer of the response, valid until the next call on any limiter. */
  readonly response: Float64Array
}

/**
 * The shared `take` of single-limit limiters, by engine. With one function instead of one per
 * limiter, JavaScript engines call it directly.
 */
const sharedTakeCalls = new WeakMap<Engine, SharedTakeCall>()

interface SharedTakeCall extends Omit<TakeCall, 'index'> {
  readonly takes: InstanceType<NonNullable<Engine['Takes']>>
}

/** @param length - The length of the limiter's responses, in doubles. */
export function takeCallOf(engine: Engine, state: EngineLimiterState, length: number): TakeCall {
  const { Takes } = engine
  if (Takes === undefined || !state.isSingle) {
    const response = new Float64Array(length)
    return { take: state.bindTake(response), limiterIndex: new Uint32Array(1), index: 0, response }
  }
  const sharedCall = sharedTakeCalls.get(engine) ?? createSharedTakeCall(Takes)
  sharedTakeCalls.set(engine, sharedCall)
  const { takes, take, limiterIndex, response } = sharedCall
  return { take, limiterIndex, index: takes.add(state), response }
}

function createSharedTakeCall(Takes: NonNullable<Engine['Takes']>): SharedTakeCall {
  const takes = new Takes()
  const limiterIndex = new Uint32Array(1)
  const response = new Float64Array(RESPONSE_LENGTH)
  return { takes, take: takes.bind(limiterIndex, response), limiterIndex, response }
}
