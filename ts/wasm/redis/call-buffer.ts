import type { WasmRedisLimiter } from '../../../wasm/redis-engine.js'
import * as glue from '../../../wasm/redis-engine.js'
import type { EnginePolicy, EnginePolicySet } from '../../backends/engine.js'
import { FAILURE_CODES, OPERATION_CODES } from '../../backends/protocol.js'
import { buildOverride, buildPolicySet } from '../engine/builder.js'
import type { KeyParts, Scratch } from '../engine/scratch.js'
import { checkSeed } from './start.js'

/**
 * One limiter's keys in Redis, with the calls that wait to be sent: see `WasmRedisLimiter` in
 * `native.d.ts`.
 */
export class CallBuffer {
  readonly glue: WasmRedisLimiter
  readonly #scratch: Scratch

  constructor(glue: WasmRedisLimiter, scratch: Scratch) {
    this.glue = glue
    this.#scratch = scratch
  }

  bindEnqueue(answer: Float64Array): (key: string, cost: number) => void {
    const [buffer, scratch] = [this.glue, this.#scratch]
    return (key, cost) => {
      checkSeed()
      const length = scratch.writeKey(key, 0)
      answer[0] = length < 0 ? length : codeOrTrap(() => buffer.enqueueTake(length, cost))
    }
  }

  enqueueOperation(keys: KeyParts, tag: string | undefined, operation: number, amount: number): number {
    return this.#enqueue(keys, tag, operation, [amount])
  }

  enqueueRefund(keys: KeyParts, tag: string | undefined, units: number, taken: Float64Array): number {
    return this.#enqueue(keys, tag, OPERATION_CODES.refund, [units, ...taken])
  }

  enqueueOverride(
    keys: KeyParts,
    tag: string | undefined,
    policies: readonly (EnginePolicy | undefined)[],
    durationUs: number,
  ): number {
    buildOverride(glue, this.#scratch, policies)
    return this.#enqueue(keys, tag, OPERATION_CODES.override, [durationUs])
  }

  enqueueSchedule(keys: KeyParts, tag: string | undefined, cost: number, maxWaitUs: number): number {
    return this.#enqueue(keys, tag, OPERATION_CODES.schedule, [cost, maxWaitUs])
  }

  enqueueCancelScheduled(keys: KeyParts, tag: string | undefined, booked: Float64Array): number {
    return this.#enqueue(keys, tag, OPERATION_CODES.cancelScheduled, booked)
  }

  enqueueOnHold(keys: KeyParts, tag: string | undefined, hold: Uint8Array, numbers: Float64Array): number {
    return this.#enqueue(keys, tag, numbers[0] as number, [...hold, ...numbers])
  }

  enqueueAcquire(keys: KeyParts, tag: string | undefined, cost: number, permit: number, waitedUs: number): number {
    return this.#enqueue(keys, tag, OPERATION_CODES.acquire, [cost, permit, waitedUs])
  }

  openVariant(policies: EnginePolicySet, index: number, replaces: boolean): CallBuffer {
    const variant = this.glue.openVariant(buildPolicySet(glue, this.#scratch, policies), index, replaces)
    if (variant === undefined) {
      throw this.#scratch.engineError()
    }
    return new CallBuffer(variant, this.#scratch)
  }

  close(): void {
    this.glue.close()
  }

  #enqueue(keys: KeyParts, tag: string | undefined, code: number, numbers: ArrayLike<number>): number {
    checkSeed()
    const length = this.#scratch.writeKeys(keys)
    return length < 0 ? length : codeOrTrap(() => this.glue.enqueue(tag, code, this.#scratch.writeNumbers(numbers)))
  }
}

/**
 * Returns the code of a failure, or 0. A panic of the engine is a WebAssembly trap, which throws.
 */
function codeOrTrap(enqueue: () => number): number {
  try {
    return enqueue()
  } catch {
    return FAILURE_CODES.panicked
  }
}
