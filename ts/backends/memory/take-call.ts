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

/** The `take` that all single-limit limiters share: JavaScript engines call a single function directly. */
const sharedTakeCalls = new WeakMap<Engine, SharedTakeCall>()

interface SharedTakeCall extends Omit<TakeCall, 'index'> {
  readonly registry: InstanceType<NonNullable<Engine['LimiterRegistry']>>
}

/** @param length - The length of the limiter's responses, in doubles. */
export function takeCallOf(engine: Engine, state: EngineLimiterState, length: number): TakeCall {
  const { LimiterRegistry } = engine
  if (LimiterRegistry === undefined || !state.isSingle) {
    const response = new Float64Array(length)
    return { take: state.bindTake(response), limiterIndex: new Uint32Array(1), index: 0, response }
  }
  const sharedCall = sharedTakeCalls.get(engine) ?? createSharedTakeCall(LimiterRegistry)
  sharedTakeCalls.set(engine, sharedCall)
  const { registry, take, limiterIndex, response } = sharedCall
  return { take, limiterIndex, index: registry.add(state), response }
}

function createSharedTakeCall(LimiterRegistry: NonNullable<Engine['LimiterRegistry']>): SharedTakeCall {
  const registry = new LimiterRegistry()
  const limiterIndex = new Uint32Array(1)
  const response = new Float64Array(RESPONSE_LENGTH)
  return { registry, take: registry.bind(limiterIndex, response), limiterIndex, response }
}
