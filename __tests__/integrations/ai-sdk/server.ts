/** A provider with the API of OpenAI's chat completions. The last message tells it how to answer. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** How an answer goes on, as JSON in the last message of the user. */
interface Script {
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

interface Message {
  readonly role: string
  readonly content: unknown
}

export const INPUT_TOKENS = 20

export class Provider {
  readonly #server = createServer((request, response) => void this.#answer(request, response))
  readonly #refused = new Map<string, number>()
  /** The requests that it received. */
  requests = 0
  /** The streams whose client left before their end. */
  abandoned = 0

  static async start(): Promise<Provider> {
    const provider = new Provider()
    provider.#server.listen(0, '127.0.0.1')
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
    this.requests++
    let text = ''
    for await (const chunk of request) {
      text += chunk
    }
    const { messages, stream } = JSON.parse(text) as { messages: readonly Message[]; stream?: boolean }
    const script = scriptOf(messages)
    const { refuse, name = '' } = script
    const refused = this.#refused.get(name) ?? 0
    if (refuse !== undefined && refused < refuse.times) {
      this.#refused.set(name, refused + 1)
      response.writeHead(refuse.status, { 'content-type': 'application/json', ...refuse.headers })
      response.end(JSON.stringify({ error: { message: 'refused', type: 'requests', param: null, code: null } }))
    } else if (stream === true) {
      await this.#stream(script, messages, response)
    } else {
      const message = messageOf(script, messages)
      const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: reasonOf(message) }]
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ ...HEAD, choices, usage: usageOf(script) }))
    }
  }

  async #stream(script: Script, messages: readonly Message[], response: ServerResponse): Promise<void> {
    const { output = 1, everyMs = 0, breakAfter, text } = script
    const send = (rest: object) => response.write(`data: ${JSON.stringify({ ...HEAD, ...rest })}\n\n`)
    const part = (delta: object, finish_reason: string | null) =>
      send({ choices: [{ index: 0, delta, finish_reason }] })
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const message = messageOf(script, messages)
    const parts = text === undefined && message.tool_calls === undefined ? output : 1
    for (let sent = 0; sent < parts; sent++) {
      if (sent === breakAfter) {
        response.destroy()
        return
      }
      part(parts === 1 ? { role: 'assistant', ...message } : { role: 'assistant', content: 'abc' }, null)
      await new Promise((resolve) => setTimeout(resolve, everyMs))
      if (response.destroyed) {
        this.abandoned++
        return
      }
    }
    part({}, reasonOf(message))
    send({ choices: [], usage: usageOf(script) })
    response.end('data: [DONE]\n\n')
  }
}

const HEAD = { id: 'answer', object: 'chat.completion.chunk', created: 1_780_000_000, model: 'large' }

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
