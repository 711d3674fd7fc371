/** The messages between the page and its worker. */
import type { RunResult } from './run.js'
import type { PageState } from './state.js'

/** The number of columns of the plots. */
export const COLUMNS = 240

/** Requests all results. A newer request cancels an older one that is still running. */
export interface WorkerRequest {
  readonly id: number
  readonly state: PageState
}

/** An error in the input: the engine's message, and the path of the field if it is known. */
export interface InputError {
  readonly message: string
  readonly path?: string
}

/** The result of one policy. */
export type PolicyResult = { readonly outcome: RunResult } | { readonly inputError: InputError }

/** A summary of the traffic for the page. */
export interface TrafficSummary {
  readonly calls: number
  readonly startMs: number
  readonly lengthUs: number
  /** Whether all calls cost one unit. */
  readonly unitCosts: boolean
  /** The keys, the busiest first; truncated if there are many. */
  readonly keys: readonly string[]
  readonly watched: string
}

/** The response to a request. */
export type WorkerResponse =
  | { readonly id: number; readonly summary: TrafficSummary; readonly results: readonly PolicyResult[] }
  | { readonly id: number; readonly inputError: InputError }
