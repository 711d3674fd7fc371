// Calls of models through the middleware, by the version of the AI SDK in the arguments. Prints what each was charged.
import { fixedWindow, gcra, MemoryStore, modelOf, RateLimiter, rateLimit, TestClock } from './model.mjs'

const [version, url] = process.argv.slice(2)

/** The times for which the SDK waits before its retries. The clock of the limiter follows. */
const delays = []
let onDelay = () => {}
const { setTimeout: realSetTimeout } = globalThis
globalThis.setTimeout = (run, millis, ...rest) => {
  delays.push(millis)
  return realSetTimeout(async () => {
    await onDelay(millis)
    run(...rest)
  }, millis)
}

const sdk = await import(version)
const { generateText, streamText, jsonSchema, Output, RetryError, APICallError, stepCountIs, tool, wrapLanguageModel } =
  sdk

const METERS = ['requests', 'tokens', 'inputTokens', 'outputTokens', 'cachedInputTokens']

/** A wrapped model with a limiter of its own, and what its key has used. Calls reserve 100 tokens. */
function setUp(options = {}, limit = 10_000) {
  const clock = new TestClock()
  const policies = METERS.map((meter) => [meter, fixedWindow({ limit, window: '1h', meter, maxOwed: 10_000 })])
  const limiter = new RateLimiter(Object.fromEntries(policies), { store: new MemoryStore({ clock }) })
  const charges = []
  const middleware = rateLimit({
    limiter,
    key: 'a',
    estimate: () => ({ inputTokens: 20, outputTokens: 80 }),
    onCharged: ({ outcome, isReported }) => charges.push([outcome, isReported]),
    ...options,
  })
  const model = wrapLanguageModel({ model: modelOf(version, url), middleware })
  const used = async (key = 'a') => {
    const cost = Object.fromEntries(METERS.map((meter) => [meter, 0]))
    const numbers = (await limiter.peek(key, { cost })).policies
    return METERS.map((meter) => numbers[meter].used)
  }
  return { clock, limiter, model, used, charges }
}

const prompt = (script) => JSON.stringify(script)
const until = async (done) => {
  while (!(await done())) await new Promise((resolve) => realSetTimeout(resolve, 5))
}
const ignore = () => {}

const scenarios = {
  async generateText() {
    const { model, used } = setUp()
    const { providerMetadata, text } = await generateText({ model, prompt: prompt({ output: 30, cached: 8 }) })
    return { text, used: await used(), metadata: providerMetadata.tollgate }
  },
  async streamText() {
    const { model, used } = setUp()
    const result = streamText({ model, prompt: prompt({ output: 130 }) })
    const text = await result.text
    return { length: text.length, used: await used(), metadata: (await result.providerMetadata).tollgate }
  },
  async owed() {
    const { model, used } = setUp({}, 120)
    const { providerMetadata } = await generateText({ model, prompt: prompt({ output: 400 }) })
    const error = await generateText({ model, prompt: prompt({}), maxRetries: 5 }).catch((error) => error)
    const { charged, owed } = providerMetadata.tollgate
    return {
      charged,
      owed,
      used: await used(),
      status: error.statusCode,
      isApiCallError: APICallError.isInstance(error),
    }
  },
  async objects() {
    const { model, used } = setUp()
    const schema = jsonSchema({ type: 'object', properties: { a: { type: 'number' } }, required: ['a'] })
    const options = { model, output: Output.object({ schema }), prompt: prompt({ output: 7, text: '{"a":5}' }) }
    const { output } = await generateText(options)
    const streamed = streamText(options)
    const objects = [output, await streamed.output]
    const old = { model, schema, prompt: prompt({ output: 7, text: '{"a":5}' }) }
    objects.push((await sdk.generateObject(old)).object)
    for await (const object of sdk.streamObject(old).partialObjectStream) objects[3] = object
    return { objects, used: await used() }
  },
  async steps() {
    const { model, used, charges } = setUp()
    const inputSchema = jsonSchema({ type: 'object', properties: { of: { type: 'string' } } })
    const tools = { weigh: tool({ inputSchema, execute: async () => 'heavy' }) }
    const options = { model, tools, stopWhen: stepCountIs(5), prompt: prompt({ output: 11, tool: 'weigh' }) }
    const { steps } = await generateText(options)
    const streamed = streamText(options)
    await streamed.consumeStream()
    return { steps: [steps.length, (await streamed.steps).length], charges, used: await used() }
  },
  async parallel() {
    const { model, used } = setUp({}, 450)
    const results = await Promise.allSettled(
      Array.from({ length: 9 }, () => generateText({ model, prompt: prompt({ output: 80 }), maxRetries: 0 })),
    )
    return { sent: results.filter(({ status }) => status === 'fulfilled').length, used: await used() }
  },
  async keys() {
    const { model, used } = setUp({ key: undefined })
    const providerOptions = { tollgate: { key: 'b' } }
    await generateText({ model, providerOptions, prompt: prompt({ output: 5 }) })
    const error = await generateText({ model, prompt: prompt({}) }).catch((error) => error)
    return { used: await used('b'), code: error.code }
  },
  async retryOfRefusal() {
    const { clock, model, limiter, used } = setUp()
    await limiter.block('a', '41ms')
    onDelay = (millis) => (millis === 41 ? clock.advance(millis) : undefined)
    const { text } = await generateText({ model, prompt: prompt({ output: 5 }) })
    return { text, delays: delays.filter((millis) => millis === 41), used: await used() }
  },
  async exhausted() {
    const { model, limiter } = setUp()
    await limiter.block('a', '43ms')
    const error = await generateText({ model, maxRetries: 2, prompt: prompt({}) }).catch((error) => error)
    const { lastError, errors } = error
    return {
      isRetryError: RetryError.isInstance(error),
      delays: delays.filter((millis) => millis === 43).length,
      statuses: errors.map(({ statusCode }) => statusCode),
      cause: lastError.cause.status,
    }
  },
  async providerRefuses() {
    const { clock, model, limiter, used, charges } = setUp()
    const blocks = []
    onDelay = async (millis) => {
      if (millis === 47) {
        const { status, retryAfterMs } = await limiter.peek('a', { cost: { requests: 1, tokens: 1, ...NONE } })
        blocks.push([status, retryAfterMs])
        await clock.advance(millis)
      }
    }
    const refuse = { status: 429, times: 1, headers: { 'retry-after-ms': '47' } }
    const { text } = await generateText({ model, prompt: prompt({ name: 'limited', output: 5, refuse }) })
    return { text, blocks, used: await used(), charges }
  },
  async broken() {
    const { model, used, charges } = setUp({ onAbort: 'streamed' })
    const failing = prompt({ output: 50, breakAfter: 9 })
    const errors = []
    await streamText({ model, prompt: failing, onError: ({ error }) => errors.push(error) }).consumeStream({
      onError: ignore,
    })
    const refuse = { status: 400, times: 9 }
    await generateText({ model, prompt: prompt({ name: 'bad', refuse }) }).catch((error) =>
      errors.push(error.statusCode),
    )
    return { errors: errors.length, used: await used(), charges }
  },
  async aborted() {
    const { model, used, charges } = setUp({ onAbort: 'streamed' })
    const controller = new AbortController()
    const abortSignal = controller.signal
    let parts = 0
    const { fullStream } = streamText({ model, abortSignal, prompt: prompt({ output: 100_000, everyMs: 1 }) })
    for await (const { type } of fullStream) {
      parts += type === 'text-delta' ? 1 : 0
      if (parts === 10) controller.abort()
    }
    await until(() => charges.length > 0)
    const [requests, , input, output] = await used()
    return { requests, input, isOutputCounted: output >= 10, charges }
  },
  async cancelled() {
    const { model, used, charges } = setUp()
    const script = prompt({ output: 100_000, everyMs: 1 })
    const { textStream } = streamText({ model, prompt: script })
    for await (const _ of textStream) break
    // The SDK does not cancel the stream of the model: its reservation is open, and ends as nobody reads.
    const open = [await used(), [...charges]]
    const content = [{ type: 'text', text: script }]
    const { stream } = await model.doStream({ prompt: [{ role: 'user', content }] })
    const reader = stream.getReader()
    await reader.read()
    await reader.cancel()
    return { open, used: await used(), charges }
  },
  async waits() {
    const clock = new TestClock()
    const limiter = new RateLimiter(gcra({ limit: 1, period: '10s', meter: 'requests' }), {
      store: new MemoryStore({ clock }),
    })
    const middleware = rateLimit({ limiter, key: 'a', maxWait: '1m', clock })
    const model = wrapLanguageModel({ model: modelOf(version, url), middleware })
    const calls = Promise.all([1, 2, 3].map(() => generateText({ model, prompt: prompt({}), maxRetries: 0 })))
    let isDone = false
    void calls.then(() => {
      isDone = true
    })
    await until(() => clock.advance('1s').then(() => isDone))
    return { texts: (await calls).map(({ text }) => text), timers: clock.timerCount }
  },
}

const NONE = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 }
const results = {}
for (const [name, run] of Object.entries(scenarios)) {
  results[name] = await run().catch((error) => ({ failure: error.stack }))
  onDelay = ignore
}
console.log(JSON.stringify(results))
// A stream that nobody reads to its end keeps a connection open.
process.exit()
