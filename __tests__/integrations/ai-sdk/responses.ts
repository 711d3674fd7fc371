/** Answers of the provider of server.ts in the format of OpenAI's responses. */
import { type Events, INPUT_TOKENS, type Script } from './script.js'

const HEAD = { id: 'answer', object: 'response', created_at: 1_780_000_000, model: 'large' }

export function responsesAnswer({ output = 1, cached = 0, text = 'abc' }: Script): object {
  const content = [{ type: 'output_text', text, annotations: [] }]
  return {
    ...HEAD,
    status: 'completed',
    output: [{ id: 'message', type: 'message', role: 'assistant', status: 'completed', content }],
    usage: {
      input_tokens: INPUT_TOKENS,
      input_tokens_details: { cached_tokens: cached },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: INPUT_TOKENS + output,
    },
  }
}

export function responsesEvents(script: Script): Events {
  const { output = 1, text = 'abc' } = script
  const event = (type: string, rest: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`
  const created = { ...HEAD, status: 'in_progress', output: [], usage: null }
  const delta = { item_id: 'message', output_index: 0, content_index: 0, delta: text }
  return {
    first: event('response.created', { response: created }),
    part: { text: event('response.output_text.delta', delta), count: output },
    last: event('response.completed', { response: responsesAnswer(script) }),
  }
}
