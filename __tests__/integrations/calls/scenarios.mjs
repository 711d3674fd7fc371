// Calls of one SDK by the block of the page. Prints what each was charged, and what its caller got.
import { SDKS, setProvider } from './sdks.mjs'

const [name, url, redis] = process.argv.slice(2)
setProvider(url)
const charges = []
const sdk = await SDKS[name]({ redis, onCharge: ({ attempt, units }) => charges.push([attempt, units ?? null]) })

/** The used units of each policy of the page; of permits those that are held. */
async function used() {
  const { policies } = await sdk.limiter.peek('gpt-5', { cost: zeros() })
  return Object.values(policies).map(({ used }) => used)
}

function zeros() {
  const meters = name === 'anthropic' ? ['calls', 'inputTokens', 'outputTokens'] : ['calls', 'tokens']
  return { ...Object.fromEntries(meters.map((meter) => [meter, 0])), answers: 1 }
}

const failure = (error) => ({
  error: error.constructor.name,
  status: error.status ?? null,
  cause: (error.cause?.code ?? error.cause?.cause?.code) || null,
})

const scenarios = {
  ask: () => sdk.ask({ output: 30, cached: 8 }),
  stream: () => sdk.stream({ output: 130 }),
  moreThanCost: () => sdk.stream({ output: 700 }),
  serverErrors: () => sdk.ask({ name: 'errors', refuse: { status: 500, times: 2 } }),
  overloaded: () => sdk.stream({ name: 'overloaded', output: 3, refuse: { status: 529, times: 1 } }),
  /** A character of three bytes is a token. */
  down: () => sdk.ask({ name: 'down', text: '語'.repeat(30), refuse: { status: 503, times: 9 } }),
  invalid: () => sdk.ask({ name: 'invalid', refuse: { status: 400, times: 9 } }),
  broken: () => sdk.stream({ output: 20, breakAfter: 5 }),
  async aborted() {
    const controller = new AbortController()
    let parts = 0
    const onPart = () => (++parts === 5 ? controller.abort() : undefined)
    // Some SDKs reject, others end the stream.
    await sdk.stream({ output: 1_000_000, everyMs: 1 }, controller.signal, onPart).catch(() => {})
  },
  impossible: () => sdk.ask({ text: 'x'.repeat(2_000_000) }),
  ...(sdk.agent !== undefined && { agent: () => sdk.agent({ output: 5 }) }),
  /** A refusal pauses all calls, also those that are made later. */
  async refused() {
    const headers = { 'retry-after-ms': '150', 'retry-after': '1' }
    const script = { name: 'refused', output: 2, refuse: { status: 429, times: 1, headers } }
    const blocked = new Promise((resolve) => sdk.client.on('block', resolve))
    const first = sdk.ask(script)
    const { status, durationMs } = await blocked
    const others = [1, 2, 3].map(() => sdk.ask({ output: 2 }))
    return [status, durationMs, ...(await Promise.all([first, ...others]))]
  },
}

const results = {}
for (const [scenario, run] of Object.entries(scenarios)) {
  const before = await used()
  charges.length = 0
  const result = await run().then((result) => ({ result }), failure)
  while (sdk.client.status().running > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  const after = await used()
  const added = after.map((units, policy) => units - before[policy])
  const provider = await (await fetch(`${url}/counts`)).json()
  results[scenario] = { ...result, used: added, charges: [...charges], ...provider }
}
console.log(JSON.stringify(results))
await sdk.client.close()
await sdk.limiter.close()
