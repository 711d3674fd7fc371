// A model of each SDK by the blocks of the page.
import { createAgent, tool } from 'langchain'
import { z } from 'zod'
import { runBlock } from './page.mjs'

const model = 'gpt-5'
const messagesOf = (script) => [{ role: 'user', content: JSON.stringify(script) }]

/** Sets the URL of the provider, which the SDKs read from the environment. */
export function setProvider(url) {
  const own = { OPENAI_BASE_URL: url, OPENAI_API_KEY: 'none', ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'none' }
  Object.assign(process.env, own)
}

/** `ask` and `stream` resolve to the text of the answer. */
export const SDKS = {
  async openai(options) {
    const { openai, ...made } = await runBlock('openai', options)
    const { completions } = openai.chat
    const bodyOf = (script) => ({ model, messages: messagesOf(script), max_completion_tokens: 500 })
    return {
      ...made,
      async ask(script) {
        const { choices } = await completions.create(bodyOf(script))
        return choices[0].message.content
      },
      async stream(script, signal, onPart = () => {}) {
        const body = { ...bodyOf(script), stream: true, stream_options: { include_usage: true } }
        let text = ''
        for await (const { choices } of await completions.create(body, { signal })) {
          text += choices[0]?.delta.content ?? ''
          onPart()
        }
        return text
      },
    }
  },

  async responses(options) {
    const { openai, ...made } = await runBlock('openai', options)
    const bodyOf = (script) => ({ model, input: JSON.stringify(script), max_output_tokens: 500 })
    return {
      ...made,
      async ask(script) {
        return (await openai.responses.create(bodyOf(script))).output_text
      },
      async stream(script, signal, onPart = () => {}) {
        let text = ''
        for await (const event of await openai.responses.create({ ...bodyOf(script), stream: true }, { signal })) {
          if (event.type === 'response.output_text.delta') {
            text += event.delta
            onPart()
          }
        }
        return text
      },
    }
  },

  async anthropic(options) {
    const { anthropic, ...made } = await runBlock('@anthropic-ai/sdk', options)
    const bodyOf = (script) => ({ model, messages: messagesOf(script), max_tokens: 500 })
    return {
      ...made,
      async ask(script) {
        const { content } = await anthropic.messages.create(bodyOf(script))
        return content[0].text
      },
      async stream(script, signal, onPart = () => {}) {
        let text = ''
        for await (const event of await anthropic.messages.create({ ...bodyOf(script), stream: true }, { signal })) {
          text += event.type === 'content_block_delta' ? event.delta.text : ''
          onPart()
        }
        return text
      },
    }
  },

  async langchain(options) {
    const { limitedFetch, ...made } = await runBlock('openai', options)
    const { chat } = await runBlock('@langchain/openai', { given: { limitedFetch } })
    return {
      ...made,
      /** Runs an agent, which calls a tool. */
      async agent(script) {
        const schema = z.object({ of: z.string() })
        const lookup = tool(({ of }) => of, { name: 'lookup', description: 'Looks something up.', schema })
        const messages = [{ role: 'user', content: JSON.stringify({ ...script, tool: 'lookup' }) }]
        const { messages: answers } = await createAgent({ model: chat, tools: [lookup] }).invoke({ messages })
        return answers.map(({ type }) => type)
      },
      async ask(script) {
        const { content } = await chat.invoke(JSON.stringify(script))
        return content
      },
      async stream(script, signal, onPart = () => {}) {
        let text = ''
        for await (const { content } of await chat.stream(JSON.stringify(script), { signal })) {
          text += content
          onPart()
        }
        return text
      },
    }
  },
}
