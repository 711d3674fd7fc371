import type { WasmRedisLimiter } from '../../../generated/wasm/redis-engine.js'
import * as glue from '../../../generated/wasm/redis-engine.js'
import type { EnginePolicy, EnginePolicySet } from '../../backends/engine.js'
import { FAILURE_CODES, OPERATION_CODES } from '../../backends/protocol.js'
import { buildOverrides, buildPolicySet } from '../engine/builder.js'
import type { KeyParts, Scratch } from '../engine/scratch.js'
import { checkSeed } from './start.js'

/** One limiter's calls that wait to be sent: see `WasmRedisLimiter` in `native.d.ts`. */
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

  bindEnqueueByPolicy(answer: Float64Array): (key: string, count: number) => void {
    const operation = OPERATION_CODES.take + OPERATION_CODES.metered
    return (key, count) => {
      answer[0] = this.enqueue([key], undefined, operation, [count, ...answer.subarray(0, count)], [])
    }
  }

  enqueue(
    keys: KeyParts,
    tag: string | undefined,
    operation: number,
    numbers: ArrayLike<number>,
    overrides: readonly (EnginePolicy | undefined)[],
  ): number {
    checkSeed()
    const scratch = this.#scratch
    buildOverrides(glue, scratch, overrides)
    const length = scratch.writeKeys(keys)
    return length < 0 ? length : codeOrTrap(() => this.glue.enqueue(tag, operation, scratch.writeNumbers(numbers)))
  }

  openVariant(policies: EnginePolicySet, index: number, replaces: boolean): CallBuffer {
    const isSingle = buildPolicySet(glue, this.#scratch, policies)
    return new CallBuffer(this.#scratch.made(this.glue.openVariant(isSingle, index, replaces)), this.#scratch)
  }

  close(): void {
    this.glue.close()
  }
}

/** The code of a failure, or 0. A panic of the engine is a WebAssembly trap, which throws. */
function codeOrTrap(enqueue: () => number): number {
  try {
    return enqueue()
  } catch {
    return FAILURE_CODES.panicked
  }
}
