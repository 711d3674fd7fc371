/** What the provider of server.ts answers, in each format. */

/** How an answer goes on, as JSON in the last message of the user. */
export interface Script {
  /** The tokens of the output: each is a part of a stream. */
  readonly output?: number
  /** The milliseconds between two parts. */
  readonly everyMs?: number
  /** The tokens of the input that were cached. */
  readonly cached?: number
  /** Answers the first requests of a `name` with this status, this number of times. */
  readonly name?: string
  readonly refuse?: { readonly status: number; readonly times: number; readonly headers?: Record<string, string> }
  /** Breaks the connection after this number of parts. */
  readonly breakAfter?: number
  /** The text of the answer. */
  readonly text?: string
  /** Calls this tool unless a tool has answered. */
  readonly tool?: string
}

/** The text of the events of a stream: each part is sent a number of times. */
export interface Events {
  readonly first?: string
  readonly part: { readonly text: string; readonly count: number }
  readonly last: string
}

export const INPUT_TOKENS = 20
