/**
 * A provider with the APIs of OpenAI's chat completions and responses, and of Anthropic's messages. The last message
 * tells it how to answer.
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { anthropicAnswer, anthropicEvents } from './anthropic.js'
import { responsesAnswer, responsesEvents } from './responses.js'
import { type Events, INPUT_TOKENS, type Script } from './script.js'

interface Message {
  readonly role: string
  readonly content: unknown
}

export class Provider {
  readonly #server = createServer((request, response) => void this.#answer(request, response))
  readonly #refused = new Map<string, number>()
  /** The requests that it received. */
  requests = 0
  /** The requests that came before the time that the latest refusal with `retry-after-ms` named. */
  early = 0
  #refusedUntil = 0
  /** The length of the latest request. */
  #bytes = 0
  /** The streams whose client left before their end. */
  abandoned = 0

  static async start(): Promise<Provider> {
    const provider = new Provider()
    provider.#server.listen(0, '127.0.0.1')
    // A test that fails does not keep Jest alive.
    provider.#server.unref()
    await once(provider.#server, 'listening')
    return provider
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`
  }

  async stop(): Promise<void> {
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      // For programs: the counts since they asked last.
      response.end(JSON.stringify({ requests: this.requests, early: this.early, bytes: this.#bytes }))
      this.requests = 0
      this.early = 0
      return
    }
    this.requests++
    this.early += performance.now() < this.#refusedUntil ? 1 : 0
    let text = ''
    for await (const chunk of request) {
      text += chunk
    }
    this.#bytes = Buffer.byteLength(text)
    const {
      input,
      messages = [{ role: 'user', content: input }],
      stream,
      stream_options,
    } = JSON.parse(text) as {
      input?: string
      messages?: readonly Message[]
      stream?: boolean
      stream_options?: { include_usage?: boolean }
    }
    const isAnthropic = request.url?.endsWith('/messages') === true
    const isResponses = request.url?.endsWith('/responses') === true
    const script = scriptOf(messages)
    const { refuse, name = '' } = script
    const refused = this.#refused.get(name) ?? 0
    if (refuse !== undefined && refused < refuse.times) {
      this.#refused.set(name, refused + 1)
      // Timers may be early by less than a millisecond on either side.
      this.#refusedUntil = performance.now() + Number(refuse.headers?.['retry-after-ms'] ?? 0) - 2
      response.writeHead(refuse.status, { 'content-type': 'application/json', ...refuse.headers })
      response.end(JSON.stringify({ error: { message: 'refused', type: 'requests', param: null, code: null } }))
    } else if (stream === true) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const hasUsage = stream_options?.include_usage === true
      const {
        first = '',
        part,
        last,
      } = isAnthropic
        ? anthropicEvents(script)
        : isResponses
          ? responsesEvents(script)
          : openaiEvents(script, messages, hasUsage)
      response.write(first)
      await this.#stream(script, { part, last }, response)
    } else if (isAnthropic || isResponses) {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(isAnthropic ? anthropicAnswer(script) : responsesAnswer(script)))
    } else {
      const message = messageOf(script, messages)
      const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: reasonOf(message) }]
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ ...HEAD, id: randomUUID(), choices, usage: usageOf(script) }))
    }
  }

  async #stream({ everyMs = 0, breakAfter }: Script, { part, last }: Events, response: ServerResponse): Promise<void> {
    for (let sent = 0; sent < part.count; sent++) {
      if (sent === breakAfter) {
        response.destroy()
        return
      }
      response.write(part.text)
      await new Promise((resolve) => setTimeout(resolve, everyMs))
      if (response.destroyed) {
        this.abandoned++
        return
      }
    }
    response.end(last)
  }
}

function openaiEvents(script: Script, messages: readonly Message[], hasUsage: boolean): Events {
  const { output = 1, text } = script
  const id = randomUUID()
  const event = (rest: object) => `data: ${JSON.stringify({ ...HEAD, id, ...rest })}\n\n`
  const part = (delta: object, finish_reason: string | null) => event({ choices: [{ index: 0, delta, finish_reason }] })
  const message = messageOf(script, messages)
  const count = text === undefined && message.tool_calls === undefined ? output : 1
  const delta = count === 1 ? { role: 'assistant', ...message } : { role: 'assistant', content: 'abc' }
  const usage = hasUsage ? event({ choices: [], usage: usageOf(script) }) : ''
  return {
    part: { text: part(delta, null), count },
    last: `${part({}, reasonOf(message))}${usage}data: [DONE]\n\n`,
  }
}

const HEAD = { object: 'chat.completion.chunk', created: 1_780_000_000, model: 'large' }

function scriptOf(messages: readonly Message[]): Script {
  const { content } = messages.findLast(({ role }) => role === 'user') as Message
  const text = typeof content === 'string' ? content : (content as readonly { readonly text: string }[])[0]?.text
  return JSON.parse(text as string) as Script
}

function messageOf({ tool, text = 'abc' }: Script, messages: readonly Message[]) {
  if (tool === undefined || messages.some(({ role }) => role === 'tool')) {
    return { content: text }
  }
  const call = { index: 0, id: 'call-1', type: 'function', function: { name: tool, arguments: '{"of":"tollgate"}' } }
  return { content: null, tool_calls: [call] }
}

function reasonOf({ tool_calls }: ReturnType<typeof messageOf>): string {
  return tool_calls === undefined ? 'stop' : 'tool_calls'
}

function usageOf({ output = 1, cached = 0 }: Script) {
  return {
    prompt_tokens: INPUT_TOKENS,
    completion_tokens: output,
    total_tokens: INPUT_TOKENS + output,
    prompt_tokens_details: { cached_tokens: cached },
  }
}
