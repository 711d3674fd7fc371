import type * as native from '../../native.js'

/**
 * The engine, as embedded stores know it: the addon (`ts/backends/addon.ts`), or one of the same shape that is WebAssembly
 * (`ts/wasm/engine/engine.ts`).
 */
export interface Engine {
  readonly MemoryStore: typeof native.MemoryStore
  readonly Policies: Omit<typeof native.Policies, 'prototype'>
  readonly Policy: Omit<typeof native.Policy, 'prototype'>
  /** Where calls of a function of each ledger's own cost no more, there is none. */
  readonly Takes?: typeof native.Takes
}

/** A store in the engine's memory. */
export type EngineStore = native.MemoryStore

/** One limiter's keys in it. */
export type EngineLedger = native.Ledger

/** What a limiter enforces, as the engine has it. */
export type EnginePolicies = native.Policies

/** One of a limiter's policies, as the engine has it. */
export type EnginePolicy = native.Policy
