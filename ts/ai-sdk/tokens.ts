import { optionsOf, wholeNumber } from '../input/options.js'
import { utf8Length } from '../input/utf8.js'
import type { ModelCall, OutputEstimator, TokenEstimate, TokenUsage } from './options.js'

/** Tokenizers make a token of about four bytes of English, and of three of most other scripts. */
const BYTES_PER_TOKEN = 3

/** Images and pages of documents cost some hundreds to some thousands of tokens. */
const TOKENS_PER_FILE = 1_000

/** The usage that a provider reports, as versions 3 and 4 of the SDK's models have it. */
interface ReportedUsage {
  readonly inputTokens?: null | {
    readonly total?: unknown
    readonly noCache?: unknown
    readonly cacheRead?: unknown
    readonly cacheWrite?: unknown
  }
  readonly outputTokens?: null | { readonly total?: unknown; readonly text?: unknown; readonly reasoning?: unknown }
}

export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN)
}

/** The tokens that a call reserves. */
export function estimatedTokens(
  call: ModelCall,
  estimate: OutputEstimator | ((call: ModelCall) => TokenEstimate) | undefined,
  defaultOutputTokens: number,
): TokenUsage {
  const { prompt, tools, responseFormat, maxOutputTokens = defaultOutputTokens } = call.params
  const given = typeof estimate === 'function' ? estimateIn(estimate(call)) : {}
  const usual = typeof estimate === 'object' ? estimate.estimate(call.modelId, maxOutputTokens) : maxOutputTokens
  return {
    inputTokens: given.inputTokens ?? inputTokensOf([prompt, tools, responseFormat]),
    outputTokens: given.outputTokens ?? usual,
    cachedInputTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
  }
}

function estimateIn(value: unknown): TokenEstimate {
  const given = optionsOf('INVALID_OPTION', 'the result of estimate', value, ['inputTokens', 'outputTokens'])
  for (const name of ['inputTokens', 'outputTokens'] as const) {
    if (given[name] !== undefined) {
      wholeNumber('INVALID_OPTION', `the result of estimate: ${name}`, given[name], 0)
    }
  }
  return given as TokenEstimate
}

function inputTokensOf(input: unknown): number {
  let files = 0
  let bytes = 0
  const add = (value: unknown): void => {
    if (typeof value === 'string') {
      bytes += utf8Length(value)
    } else if (typeof value === 'number' || typeof value === 'boolean') {
      bytes += String(value).length
    } else if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)) {
      if (typeof (value as { readonly mediaType?: unknown }).mediaType === 'string') {
        files++
        return
      }
      for (const [name, member] of Object.entries(value)) {
        // The names of members are part of schemas and of the input of tools; indices of arrays are not.
        bytes += Array.isArray(value) ? 0 : name.length
        add(member)
      }
    }
  }
  add(input)
  return tokensOfBytes(bytes) + files * TOKENS_PER_FILE
}

/** The usage that a provider reports; `undefined` if it reports none. Numbers that are absent are those of `otherwise`. */
export function reportedTokens(usage: unknown, otherwise: TokenUsage): TokenUsage | undefined {
  const { inputTokens, outputTokens } = (usage ?? {}) as ReportedUsage
  const parts = [inputTokens?.noCache, inputTokens?.cacheRead, inputTokens?.cacheWrite].map(countOf)
  const sum = parts.reduce<number>((total, part) => total + (part ?? 0), 0)
  const input = countOf(inputTokens?.total) ?? (parts.some((part) => part !== undefined) ? sum : undefined)
  const output = countOf(outputTokens?.total)
  if (input === undefined && output === undefined) {
    return undefined
  }
  return {
    inputTokens: input ?? otherwise.inputTokens,
    outputTokens: output ?? otherwise.outputTokens,
    cachedInputTokens: parts[1] ?? 0,
    cacheWriteTokens: parts[2] ?? 0,
    reasoningTokens: countOf(outputTokens?.reasoning) ?? 0,
  }
}

/** A number of tokens; `undefined` for what is none. */
function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? Math.ceil(value) : undefined
}

/** Counts the output of a stream, or of an answer, from its parts. */
export class OutputCounter {
  #bytes = 0
  /** The calls of tools whose input was streamed. */
  readonly #streamedInputs = new Set<unknown>()

  get tokens(): number {
    return tokensOfBytes(this.#bytes)
  }

  add(part: { readonly type?: unknown; readonly [name: string]: unknown }): void {
    const { type, text, delta = text, id, input, toolCallId } = part
    if (typeof delta === 'string') {
      this.#bytes += utf8Length(delta)
      if (type === 'tool-input-delta') {
        this.#streamedInputs.add(id)
      }
    } else if (type === 'tool-call' && typeof input === 'string' && !this.#streamedInputs.has(toolCallId)) {
      this.#bytes += utf8Length(input)
    }
  }
}
