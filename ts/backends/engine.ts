import type * as native from '../../native.js'

/**
 * The engine of embedded stores: the addon (`ts/backends/addon.ts`), or WebAssembly with the same
 * interface (`ts/wasm/engine/engine.ts`).
 */
export interface Engine {
  readonly MemoryStore: typeof native.MemoryStore
  readonly Policies: Omit<typeof native.Policies, 'prototype'>
  readonly Policy: Omit<typeof native.Policy, 'prototype'>
  /** Absent if a bound function per limiter costs no more than a shared one. */
  readonly Takes?: typeof native.Takes
}

/** A store in the engine's memory. */
export type EngineStore = native.MemoryStore

/** The state of one limiter in an engine store: its keys. */
export type EngineLimiterState = native.Ledger

/** A compiled policy set. */
export type EnginePolicies = native.Policies

/** A compiled policy. */
export type EnginePolicy = native.Policy
