import type * as native from '../../generated/native.js'

/** The engine of embedded stores: the addon (`ts/backends/addon.ts`), or WebAssembly (`ts/wasm/engine/engine.ts`). */
export interface Engine {
  readonly MemoryStore: typeof native.NativeMemoryStore
  readonly PolicySet: Omit<typeof native.NativePolicySet, 'prototype'>
  readonly Policy: Omit<typeof native.NativePolicy, 'prototype'>
  /** Milliseconds by a clock that never steps and that counts the suspension of the machine. */
  readonly elapsedMs: () => number
  /** Absent if a bound function per limiter costs no more than a shared one. */
  readonly LimiterRegistry?: typeof native.LimiterRegistry
}

/** A store in the engine's memory. */
export type EngineStore = native.NativeMemoryStore

/** The state of one limiter in an engine store: its keys. */
export type EngineLimiterState = native.NativeMemoryLimiter

export type EnginePolicySet = native.NativePolicySet

export type EnginePolicy = native.NativePolicy
