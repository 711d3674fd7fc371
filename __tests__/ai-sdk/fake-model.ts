/** Calls of a model as the AI SDK makes them, without the SDK. */
import { ReadableStream } from 'node:stream/web'
import { rateLimit } from '../../ts/ai-sdk/index.js'
import { MemoryStore, type Policies, type Policy, RateLimiter } from '../../ts/index.js'
import { TestClock } from '../../ts/testing/index.js'
import { anything } from '../failure.js'

export interface Part {
  readonly type: string
  readonly [name: string]: unknown
}

/** Six bytes of prompt: two tokens, beside the nine of the names of its members. */
export const PROMPT = [{ role: 'user', content: [{ type: 'text', text: 'Hello!' }] }]

export const MODEL = { provider: 'fake', modelId: 'model:large' }

/** The usage of version 3 and 4 of the SDK's models. */
export function usageOf(input: number | undefined, output: number | undefined, more: object = {}) {
  return {
    inputTokens: { total: input, noCache: undefined, cacheRead: undefined, cacheWrite: undefined, ...more },
    outputTokens: { total: output, text: undefined, reasoning: undefined },
  }
}

/** An error of a provider: the SDK's `APICallError`. */
export function providerError(statusCode: number, responseHeaders: { readonly [name: string]: string } = {}): Error {
  return Object.assign(new Error('from the provider'), { statusCode, responseHeaders })
}

/** A limiter with a middleware, on one clock. Calls reserve 10 tokens of input, and 90 of output. */
export function setUp(policies: Policy | Policies, options: { readonly [name: string]: unknown } = {}) {
  const clock = new TestClock()
  const limiter = new RateLimiter(policies, { store: new MemoryStore({ clock }) })
  const estimate = () => ({ inputTokens: 10, outputTokens: 90 })
  const middleware = rateLimit(anything({ limiter, key: 'a', estimate, clock, ...options }))
  const usedBy = async (key = 'a') => {
    const metered = Object.values<Policy>(limiter.policies).filter(({ meter }) => meter !== undefined)
    const cost = Object.fromEntries(metered.map(({ meter }) => [meter, 0]))
    const { policies: all } = await limiter.peek(key, anything(metered.length === 0 ? {} : { cost }))
    return Object.fromEntries(Object.entries(all).map(([name, { used }]) => [name, used]))
  }
  return {
    clock,
    limiter,
    usedBy,
    generate: (run: () => unknown, params: object = {}) =>
      middleware.wrapGenerate({
        doGenerate: async () => anything(await run()),
        params: { prompt: PROMPT, ...params },
        model: MODEL,
      }) as Promise<{ readonly providerMetadata: { readonly tollgate: { readonly [name: string]: unknown } } }>,
    stream: async (parts: AsyncIterable<Part> | Iterable<Part>, params: object = {}) => {
      const given = ReadableStream.from(parts)
      const result = await middleware.wrapStream({
        doStream: async () => ({ stream: given }),
        params: { prompt: PROMPT, ...params },
        model: MODEL,
      })
      return result.stream as ReadableStream<Part>
    },
  }
}

/** An answer of `doGenerate`. */
export const answer = (usage: unknown) => ({ content: [{ type: 'text', text: 'Hi' }], usage })

export const text = (delta: string): Part => ({ type: 'text-delta', id: '1', delta })

export const finish = (usage: unknown): Part => ({ type: 'finish', usage, finishReason: { unified: 'stop' } })

/** The parts of a stream. */
export async function all(stream: ReadableStream<Part>): Promise<readonly Part[]> {
  const parts: Part[] = []
  for await (const part of stream) {
    parts.push(part)
  }
  return parts
}
