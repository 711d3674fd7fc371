/** Answers of the provider of server.ts in the format of Anthropic's messages. */
import { type Events, INPUT_TOKENS, type Script } from './script.js'

const HEAD = { id: 'answer', type: 'message', role: 'assistant', model: 'large', stop_sequence: null }

export function anthropicAnswer(script: Script): object {
  const content = [{ type: 'text', text: script.text ?? 'abc' }]
  return { ...HEAD, content, stop_reason: 'end_turn', usage: { ...inputOf(script), output_tokens: script.output ?? 1 } }
}

export function anthropicEvents(script: Script): Events {
  const { output = 1, text = 'abc' } = script
  const event = (type: string, rest: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`
  const usage = { ...inputOf(script), output_tokens: 1 }
  const message = { ...HEAD, content: [], stop_reason: null, usage }
  const start = event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
  const part = event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })
  const delta = { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: output } }
  return {
    first: event('message_start', { message }) + start,
    part: { text: part, count: output },
    last: event('content_block_stop', { index: 0 }) + event('message_delta', delta) + event('message_stop', {}),
  }
}

/** `cached` tokens come from the cache. */
function inputOf({ cached = 0 }: Script) {
  return { input_tokens: INPUT_TOKENS - cached, cache_creation_input_tokens: 0, cache_read_input_tokens: cached }
}
