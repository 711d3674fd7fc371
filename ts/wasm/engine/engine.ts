import * as glue from '../../../generated/wasm/engine.js'
import type { Engine, EngineLimiterState, EnginePolicy, EnginePolicySet, EngineStore } from '../../backends/engine.js'
import { FAILURE_CODES, OPERATION_CODES } from '../../backends/protocol.js'
import { ElapsedClock } from '../../platform/elapsed-clock.js'
import { timers } from '../../platform/timers.js'
import { buildOverrides, buildPolicySet } from './builder.js'
import { Policy, PolicySet } from './policies.js'
import { checkRandom } from './random.js'
import type { KeyParts } from './scratch.js'
import { scratch } from './start.js'

const SYSTEM_CLOCK = -1

function timeOf(epochMs: number): number {
  return epochMs < 0 ? Date.now() : epochMs
}

class WasmLimiterState implements EngineLimiterState {
  readonly isSingle: boolean
  readonly #glue: glue.WasmMemoryLimiter

  constructor(state: glue.WasmMemoryLimiter) {
    this.#glue = state
    this.isSingle = state.isSingle()
  }

  bindTake(answer: Float64Array): (key: string, cost?: number, epochMs?: number) => void {
    const state = this.#glue
    const { length } = answer
    return (key, cost = 1, epochMs = SYSTEM_CLOCK) => take(state, key, cost, epochMs, answer, 0, length)
  }

  bindExecute(answer: Float64Array): ReturnType<EngineLimiterState['bindExecute']> {
    return (operation, amount, epochMs, ...keys) => {
      const units = operation > OPERATION_CODES.metered ? answer.subarray(0, amount) : []
      this.execute(keys, operation, [amount, ...units], [], epochMs, answer)
    }
  }

  takeMany(keys: readonly string[], costs: Float64Array, epochMs: number, answers: Float64Array): void {
    const length = answers.length / keys.length
    keys.forEach((key, index) => {
      take(this.#glue, key, costs[index] as number, epochMs, answers, index * length, length)
    })
  }

  execute(
    keys: KeyParts,
    operation: number,
    numbers: ArrayLike<number>,
    overrides: readonly (EnginePolicy | undefined)[],
    epochMs: number,
    answer: Float64Array,
  ): void {
    checkRandom()
    buildOverrides(glue, scratch, overrides)
    const code = scratch.writeKeys(keys)
    if (code < 0) {
      answer[0] = code
      return
    }
    try {
      this.#glue.execute(operation, scratch.writeNumbers(numbers), timeOf(epochMs))
      scratch.copyResponse(answer, 0, answer.length)
    } catch {
      answer[0] = FAILURE_CODES.panicked
    }
  }

  get prefixWithOtherNumbers(): string | null {
    return this.#glue.prefixWithOtherNumbers() ?? null
  }

  openVariant(policies: EnginePolicySet, index: number, replaces: boolean): WasmLimiterState {
    const isSingle = buildPolicySet(glue, scratch, policies)
    return new WasmLimiterState(scratch.made(this.#glue.openVariant(isSingle, index, replaces)))
  }

  close(): void {
    this.#glue.close()
  }
}

function take(
  state: glue.WasmMemoryLimiter,
  key: unknown,
  cost: number,
  epochMs: number,
  answers: Float64Array,
  start: number,
  length: number,
): void {
  checkRandom()
  const keyLength = scratch.writeKey(key, 0)
  if (keyLength < 0) {
    answers[start] = keyLength
    return
  }
  try {
    state.take(keyLength, cost, timeOf(epochMs))
    scratch.copyResponse(answers, start, length)
  } catch {
    // A panic of the engine is a WebAssembly trap, which throws.
    answers[start] = FAILURE_CODES.panicked
  }
}

const namedStores = new Map<
  string,
  { readonly store: glue.WasmMemoryStore; readonly maxKeys: number; readonly ownClock: boolean }
>()

class WasmMemoryStore implements EngineStore {
  readonly #glue: glue.WasmMemoryStore

  constructor(maxKeys: number, name: string | undefined | null, ownClock: boolean) {
    this.#glue = typeof name === 'string' ? namedStoreOf(name, maxKeys, ownClock) : new glue.WasmMemoryStore(maxKeys)
  }

  get heldKeys(): number {
    return this.#glue.heldKeys()
  }

  open(prefix: string, policies: EnginePolicySet): EngineLimiterState {
    const isSingle = buildPolicySet(glue, scratch, policies)
    scratch.writeText(prefix, 0)
    return new WasmLimiterState(scratch.made(this.#glue.open(isSingle)))
  }
}

function namedStoreOf(name: string, maxKeys: number, ownClock: boolean): glue.WasmMemoryStore {
  const known = namedStores.get(name) ?? { store: new glue.WasmMemoryStore(maxKeys), maxKeys, ownClock }
  if (known.maxKeys !== maxKeys) {
    throw new Error(`is in use with maxKeys: ${known.maxKeys}`)
  }
  if (known.ownClock !== ownClock) {
    throw new Error('is in use with another clock')
  }
  namedStores.set(name, known)
  return known.store
}

const clock = new ElapsedClock(timers.now, Date.now)

/** The WebAssembly engine, with the same interface as the addon. */
export const engine: Engine = { MemoryStore: WasmMemoryStore, Policy, PolicySet, elapsedMs: () => clock.now() }
