// A process that shares a budget in Redis with others. Prints a line for each call that was charged.
import { streamText, wrapLanguageModel } from 'ai'
import { fixedWindow, modelOf, RateLimiter, RedisStore, rateLimit } from './model.mjs'

const { url, redis, limit, name, isVictim } = JSON.parse(process.argv[2])
const store = new RedisStore({ url: redis, commandTimeout: 30_000 })
const limiter = new RateLimiter(
  {
    requests: fixedWindow({ limit: 1_000_000, window: '1d', meter: 'requests' }),
    tokens: fixedWindow({ limit, window: '1d', meter: 'tokens' }),
  },
  { store, prefix: 'shared' },
)
const print = (line) => console.log(JSON.stringify(line))
const onCharged = ({ outcome, tokens, settlement }) =>
  print({
    outcome,
    settled: settlement?.settled,
    tokens: tokens === undefined ? 0 : tokens.inputTokens + tokens.outputTokens,
  })
const estimate = () => ({ inputTokens: 20, outputTokens: 80 })
const middleware = rateLimit({ limiter, key: 'a', estimate, onCharged })
const model = wrapLanguageModel({ model: modelOf('ai', url), middleware })

/** Reads a stream, and aborts it after a number of its parts. */
async function run(script, abortAfter = Number.POSITIVE_INFINITY) {
  const controller = new AbortController()
  const options = { model, maxRetries: 0, abortSignal: controller.signal, prompt: JSON.stringify(script) }
  let parts = 0
  let failure
  const { fullStream } = streamText({ ...options, onError: () => {} })
  for await (const { type, error } of fullStream) {
    failure = type === 'error' ? error : failure
    parts += type === 'text-delta' ? 1 : 0
    if (parts === 1 && isVictim) print({ begun: true })
    if (parts === abortAfter) controller.abort()
  }
  return failure
}

if (isVictim) {
  for (let call = 0; call < 5; call++) {
    await run({ output: 30 })
  }
  // It is killed while these stream.
  await Promise.all([1, 2, 3].map(() => run({ output: 1_000_000, everyMs: 5 })))
} else {
  let calls = 0
  const worker = async () => {
    for (;;) {
      const call = calls++
      const refuse = { status: 400, times: 1 }
      const script = { output: 1 + (call % 80), everyMs: 1, ...(call % 7 === 3 && { name: `${name}-${call}`, refuse }) }
      const failure = await run(script, call % 5 === 4 ? 1 : undefined)
      if (failure?.statusCode === 429) return
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()])
  await limiter.close()
  await store.close()
}
