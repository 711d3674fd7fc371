/** The messages between the page and its worker. */
import type { InputError } from './input-error.js'
import type { RunResult } from './run.js'
import type { PageState } from './state.js'
import type { CallCosts, KeyCount } from './trace.js'

/** Requests all results. A newer request cancels an older one that is still running. */
export interface WorkerRequest {
  readonly id: number
  readonly state: PageState
}

/** The result of one policy. */
export type PolicyResult = { readonly outcome: RunResult } | { readonly inputError: InputError }

/** A summary of the traffic for the page. */
export interface TrafficSummary {
  readonly calls: number
  readonly startMs: number
  /** The length of the plots: a multiple of the columns' length. */
  readonly lengthUs: number
  /** Whether all calls cost one call. */
  readonly unitCosts: boolean
  /** The first call, whose cost the code shows. */
  readonly first: CallCosts | undefined
  /** The keys, the busiest first; truncated if there are many. */
  readonly keys: readonly KeyCount[]
  /** The number of all keys. */
  readonly keyCount: number
  readonly watched: string
  /** The span over which the comparison counts admitted units, in microseconds. */
  readonly comparedUs: number
}

/** The response to a request. */
export type WorkerResponse =
  | { readonly id: number; readonly summary: TrafficSummary; readonly results: readonly PolicyResult[] }
  | { readonly id: number; readonly inputError: InputError }
