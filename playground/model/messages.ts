/** What the page and its worker say to each other. */
import type { Outcome } from './run.js'
import type { State } from './state.js'

/** The columns of the plots. */
export const COLUMNS = 240

/** Asks for everything anew. An older request that is still worked on is given up. */
export interface Request {
  readonly id: number
  readonly state: State
}

/** What is wrong with what was typed, in the engine's words, and with which field if that is known. */
export interface Complaint {
  readonly message: string
  readonly path?: string
}

/** What became of one policy. */
export type Judged = { readonly outcome: Outcome } | { readonly complaint: Complaint }

/** The traffic, as far as the page needs it. */
export interface Sent {
  readonly calls: number
  readonly startMs: number
  readonly lengthUs: number
  /** Whether all calls cost one unit. */
  readonly unitCosts: boolean
  /** The keys, the busiest first; not all of them if there are many. */
  readonly keys: readonly string[]
  readonly watched: string
}

/** The answer to a request. */
export type Answer =
  | { readonly id: number; readonly sent: Sent; readonly judged: readonly Judged[] }
  | { readonly id: number; readonly complaint: Complaint }
