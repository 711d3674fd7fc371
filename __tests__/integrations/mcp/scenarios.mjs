// Calls of tools through the limits of a server and of a client, by the versions in the arguments. Prints what happened.
import {
  concurrency,
  connect,
  fixedWindow,
  limitToolCalls,
  limitTools,
  MemoryStore,
  RateLimiter,
  serve,
  TestClock,
  textResult,
} from './mcp.mjs'

const [serverVersion, clientVersion] = process.argv.slice(2)

const perHour = (limit, more = {}) => fixedWindow({ limit, window: '1h', ...more })

const maxWait = '10h'

/** Advances the clock until something has happened, by at most three hours, so that no wait of ten hours ends. */
async function advanceUntil(clock, hasHappened) {
  for (let hours = 0; hours < 3 && !hasHappened(); hours++) {
    await clock.advance('1h')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await until(hasHappened)
}

/** A server with a limiter of its own, and the calls that its tools have run. */
async function setUp(policies, options = {}, limiterOptions = {}, build = undefined) {
  const clock = new TestClock()
  const limiter = new RateLimiter(policies, { store: new MemoryStore({ clock }), ...limiterOptions })
  const ran = []
  const signals = []
  let release
  const released = new Promise((resolve) => {
    release = resolve
  })
  const server = await serve(serverVersion, limitTools({ limiter, ...options }), (mcp, z) => {
    if (build !== undefined) return build(mcp, ran)
    mcp.registerTool('search', { inputSchema: z.object({ text: z.string() }) }, ({ text }) => {
      ran.push(text)
      return text === 'fail' ? { ...textResult('failed'), isError: true } : textResult(`found ${text}`)
    })
    mcp.registerTool('typed', { outputSchema: z.object({ n: z.number() }) }, () => {
      ran.push('typed')
      return { ...textResult('1'), structuredContent: { n: 1 } }
    })
    mcp.registerTool('slow', {}, async ({ mcpReq, signal = mcpReq.signal }) => {
      ran.push('slow')
      signals.push(signal)
      await released
      return textResult('slow')
    })
  })
  const open = []
  const client = async (token, wrap) => {
    const connected = await connect(clientVersion, server.url, token, wrap)
    open.push(connected)
    return connected
  }
  const stop = async () => {
    release()
    await Promise.all(open.map((each) => each.close()))
    await server.stop()
    await limiter.close()
  }
  return { clock, limiter, ran, signals, release, client, stop, url: server.url }
}

const search = (client, text = 'a', options) => client.callTool({ name: 'search', arguments: { text } }, options)
const until = async (done) => {
  while (!(await done())) await new Promise((resolve) => setTimeout(resolve, 5))
}

/** The part of a result that the protocol defines. */
const resultOf = ({ content, isError, _meta }) => ({ content, isError, refusal: _meta?.['tollgate/refusal'] })

const scenarios = {
  async refusal() {
    const { client, ran, stop } = await setUp(perHour(2))
    const ann = await client('ann/one')
    const results = []
    for (const text of ['a', 'b', 'c']) results.push(resultOf(await search(ann, text)))
    const era = ann.getProtocolEra()
    await stop()
    return { results, ran, era }
  },
  async principals() {
    const { client, limiter, stop } = await setUp(perHour(10))
    for (const token of ['ann/one', 'ann/two', '/one', '/two']) await search(await client(token))
    const withoutToken = resultOf(await search(await client('')))
    const used = await Promise.all(
      ['sub:ann', 'client:one', 'client:two'].map(async (key) => (await limiter.peek(key)).used),
    )
    await stop()
    return { used, withoutToken }
  },
  async parts() {
    const per = (limit, per) => perHour(limit, { per })
    const policies = { user: per(4, 'principal'), tool: per(5, 'tool'), both: per(2, 'principalTool') }
    const { client, stop } = await setUp(policies)
    const ann = await client('ann/one')
    const bob = await client('bob/one')
    const outcomes = []
    for (const [who, name] of [
      [ann, 'search'],
      [ann, 'search'],
      [ann, 'search'],
      [ann, 'typed'],
      [ann, 'typed'],
      [ann, 'slow'],
      [bob, 'search'],
      [bob, 'search'],
    ]) {
      const { _meta } = await who.callTool({ name, arguments: name === 'search' ? { text: 'a' } : {} })
      outcomes.push(_meta?.['tollgate/refusal']?.policy ?? 'ran')
    }
    await stop()
    return { outcomes }
  },
  async meters() {
    const cost = ({ tool, arguments: { text } }) => ({ letters: tool === 'search' ? String(text).length : 1 })
    const { client, limiter, stop } = await setUp(
      { calls: perHour(10, { meter: 'calls' }), letters: perHour(8, { meter: 'letters' }) },
      { cost },
    )
    const ann = await client('ann/one')
    const outcomes = []
    for (const text of ['abcde', 'abcd', 'abc', '123456789'])
      outcomes.push(resultOf(await search(ann, text)).refusal?.status ?? 'ran')
    const { policies } = await limiter.peek('sub:ann', { cost: { letters: 0 } })
    await stop()
    return { outcomes, used: [policies.calls.used, policies.letters.used] }
  },
  async refunds() {
    const { client, limiter, stop } = await setUp(perHour(10), { refundWhen: 'failed' })
    const ann = await client('ann/one')
    for (const text of ['a', 'fail', 'b']) await search(ann, text)
    const invalid = await ann
      .callTool({ name: 'search', arguments: { text: 5 } })
      .catch(() => ({ isError: 'rejected' }))
    const { used } = await limiter.peek('sub:ann')
    await stop()
    return { used, invalid: invalid.isError !== undefined }
  },
  async schema() {
    const { client, stop } = await setUp(perHour(1))
    const ann = await client('ann/one')
    await ann.listTools()
    const first = await ann.callTool({ name: 'typed', arguments: {} })
    const second = resultOf(await ann.callTool({ name: 'typed', arguments: {} }))
    await stop()
    return { first: first.structuredContent, status: second.refusal.status }
  },
  async permits() {
    const { client, limiter, ran, release, stop } = await setUp(concurrency({ limit: 1 }))
    const ann = await client('ann/one')
    const running = ann.callTool({ name: 'slow', arguments: {} })
    await until(() => ran.length === 1)
    const { used } = await limiter.peek('sub:ann')
    const second = resultOf(await search(ann)).refusal.status
    release()
    await running
    const after = (await limiter.peek('sub:ann')).used
    const third = resultOf(await search(ann)).refusal === undefined
    await stop()
    return { used, second, after, third, ran }
  },
  async abort() {
    const { client, limiter, ran, signals, release, stop } = await setUp(concurrency({ limit: 1 }))
    const ann = await client('ann/one')
    const controller = new AbortController()
    const running = ann.callTool({ name: 'slow', arguments: {} }, { signal: controller.signal }).catch(() => 'rejected')
    await until(() => ran.length === 1)
    controller.abort()
    const result = await running
    // Version 1 of the SDK gets the cancellation as a request of its own, which reaches another server.
    if (serverVersion !== 'sdk') await until(() => signals[0].aborted)
    // The tool still runs.
    const { used } = await limiter.peek('sub:ann')
    release()
    await until(async () => (await limiter.peek('sub:ann')).used === 0)
    await stop()
    return { result, used }
  },
  async bans() {
    const ban = { after: 2, period: '1h', for: '1d' }
    const { client, clock, stop } = await setUp(perHour(1), {}, { ban })
    const ann = await client('ann/one')
    const refusals = []
    for (let call = 0; call < 4; call++) refusals.push(resultOf(await search(ann)).refusal)
    await clock.advance('25h')
    refusals.push(resultOf(await search(ann)).refusal)
    await stop()
    return {
      refusals: refusals.map((refusal) => (refusal === undefined ? 'ran' : [refusal.status, refusal.retryAfterMs])),
    }
  },
  async covered() {
    const sdk = await import(`@modelcontextprotocol/${serverVersion === 'sdk' ? 'sdk/server/mcp.js' : serverVersion}`)
    const types = serverVersion === 'sdk' ? await import('@modelcontextprotocol/sdk/types.js') : {}
    const limited = limitTools({ limiter: new RateLimiter(perHour(1)) })
    const info = { name: 'test', version: '1.0.0' }
    const errors = []
    const refuse = (server) => {
      try {
        limited(server)
      } catch (error) {
        errors.push(error.code)
      }
    }
    const registered = new sdk.McpServer(info)
    registered.registerTool('early', {}, () => textResult('early'))
    refuse(registered)
    const fallback = new sdk.McpServer(info)
    fallback.server.fallbackRequestHandler = () => textResult('early')
    refuse(fallback)
    const results = []
    for (const build of [
      ({ server }, ran) => {
        server.registerCapabilities({ tools: {} })
        server.setRequestHandler(types.CallToolRequestSchema ?? 'tools/call', ({ params }) => {
          ran.push(params.name)
          return textResult(params.name)
        })
      },
      ({ server }, ran) => {
        server.registerCapabilities({ tools: {} })
        server.fallbackRequestHandler = ({ params }) => {
          ran.push(params.name)
          return textResult(params.name)
        }
      },
    ]) {
      const { client, ran, stop } = await setUp(perHour(1), {}, {}, build)
      const ann = await client('ann/one')
      await search(ann)
      results.push([resultOf(await search(ann)).refusal?.status, ran])
      await stop()
    }
    return { errors, results }
  },
  async twoLimiters() {
    const inner = new RateLimiter(perHour(1))
    const second = limitTools({ limiter: inner, key: () => 'search', skip: ({ tool }) => tool !== 'search' })
    const { client, limiter, ran, stop } = await setUp(perHour(5), {}, {}, (mcp, ran) => {
      second(mcp)
      mcp.registerTool('search', {}, () => textResult(String(ran.push('search'))))
      mcp.registerTool('typed', {}, () => textResult(String(ran.push('typed'))))
    })
    const ann = await client('ann/one')
    const results = []
    for (const name of ['search', 'typed', 'search']) {
      results.push(resultOf(await ann.callTool({ name, arguments: {} })).refusal?.status ?? 'ran')
    }
    const { used } = await limiter.peek('sub:ann')
    await inner.close()
    await stop()
    return { results, ran, used }
  },
  async rounds() {
    if (serverVersion === 'sdk') return undefined
    const { inputRequired } = await import(`@modelcontextprotocol/${serverVersion}`)
    const { client, limiter, stop } = await setUp(
      { calls: perHour(10), atOnce: concurrency({ limit: 1 }) },
      {},
      {},
      (mcp, ran) => {
        mcp.registerTool('deploy', {}, ({ mcpReq }) => {
          ran.push('deploy')
          const { confirm } = mcpReq.inputResponses ?? {}
          if (confirm !== undefined) return textResult(confirm.action)
          const requestedSchema = { type: 'object', properties: { confirm: { type: 'boolean' } } }
          return inputRequired({
            inputRequests: { confirm: inputRequired.elicit({ message: 'Deploy?', requestedSchema }) },
          })
        })
      },
    )
    const rounds = []
    const ann = await client('ann/one', (unlimited) => {
      unlimited.registerCapabilities({ elicitation: {} })
      unlimited.setRequestHandler('elicitation/create', async () => {
        const { policies } = await limiter.peek('sub:ann')
        rounds.push([policies.calls.used, policies.atOnce.used])
        return { action: 'accept', content: { confirm: true } }
      })
      return unlimited
    })
    const { content } = resultOf(await ann.callTool({ name: 'deploy', arguments: {} }))
    const { policies } = await limiter.peek('sub:ann')
    rounds.push([policies.calls.used, policies.atOnce.used])
    await stop()
    return { rounds, content }
  },
  async clientWaits() {
    const { client, ran, stop, clock } = await setUp(perHour(3))
    const own = new RateLimiter(perHour(1), { store: new MemoryStore({ clock }) })
    const wrap = limitToolCalls({ limiter: own, key: 'server', maxWait, clock })
    const ann = await client('ann/one', wrap)
    const results = []
    const calls = [1, 2, 3].map(async (n) => results.push([n, resultOf(await search(ann, `${n}`)).isError]))
    await until(() => ran.length === 1)
    const before = [...ran]
    await advanceUntil(clock, () => ran.length >= 2)
    await advanceUntil(clock, () => ran.length >= 3)
    await Promise.all(calls)
    await own.close()
    await stop()
    return { before, ran, results }
  },
  async clientRefuses() {
    const { client, ran, stop, clock } = await setUp(perHour(3))
    const own = new RateLimiter(perHour(1), { store: new MemoryStore({ clock }) })
    const ann = await client('ann/one', limitToolCalls({ limiter: own, key: ({ name }) => name, maxWait: 0, clock }))
    await search(ann)
    const error = await search(ann).catch((error) => error)
    await own.close()
    await stop()
    return { ran, code: error.code, attempts: error.attempts }
  },
  async clientObeys() {
    const { client, ran, stop, clock } = await setUp(perHour(1))
    const own = new RateLimiter(perHour(100), { store: new MemoryStore({ clock }) })
    const ann = await client('ann/one', limitToolCalls({ limiter: own, key: 'server', maxWait, clock }))
    await search(ann)
    let result
    const call = search(ann).then((answer) => {
      result = resultOf(answer)
    })
    await until(async () => (await own.peek('server')).status === 'blocked')
    const { retryAfterMs } = await own.peek('server')
    await advanceUntil(clock, () => result !== undefined)
    await call
    await own.close()
    await stop()
    return { ran, retryAfterMs, isError: result.isError }
  },
}

const results = {}
for (const [name, run] of Object.entries(scenarios)) results[name] = await run()
console.log(JSON.stringify(results))
