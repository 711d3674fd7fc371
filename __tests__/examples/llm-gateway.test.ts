/** The gateway to a language model: its charges for complete, failed and abandoned answers. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { pages, ROOT } from '../docs/pages.js'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { type Answer, endInOrder, field, type ServedExample, sendRequest, serve } from './run.js'

const MONTH = 10_000

const complete = (gateway: ServedExample, customer: string, prompt: string, maxTokens?: number): Promise<Answer> =>
  sendRequest(`${gateway.url}/complete`, { headers: { 'x-customer': customer }, json: { prompt, maxTokens } })

/** The tokens that a customer has left. */
async function remainingTokens(gateway: ServedExample, customer: string): Promise<{ minute: number; month: number }> {
  const { body } = await sendRequest(`${gateway.url}/usage`, { headers: { 'x-customer': customer } })
  const { minute, month } = JSON.parse(body)
  expect(minute.used + minute.remaining).toBe(2_000)
  expect(Date.parse(month.resetAt)).toBeGreaterThan(Date.now())
  return { minute: minute.remaining, month: month.remaining }
}

/** A client that has read the start of an answer. */
async function begin(gateway: ServedExample, customer: string, maxTokens: number): Promise<IncomingMessage> {
  const { port } = new URL(gateway.url)
  const headers = { 'content-type': 'application/json', 'x-customer': customer }
  const outgoing = request({ port, host: '127.0.0.1', path: '/complete', method: 'POST', headers, agent: false })
  outgoing.on('error', () => {})
  outgoing.end(JSON.stringify({ prompt: 'again', maxTokens }))
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  response.on('error', () => {})
  await once(response, 'data')
  return response
}

describe.each(['in the process', 'over Redis'])('examples/llm-gateway.mjs, %s', (place) => {
  let server: RedisServer | undefined
  let gateway: ServedExample

  beforeAll(async () => {
    server = place === 'over Redis' ? await RedisServer.start() : undefined
    gateway = await serve('examples/llm-gateway.mjs', { REDIS_URL: server?.url ?? '' })
  })

  afterAll(async () => {
    await using ended = gateway
    try {
      await endInOrder(ended)
    } finally {
      await server?.stop()
    }
  })

  test('charges the real size of the prompt and the answer', async () => {
    const answer = await complete(gateway, 'ann', 'Say hello to me STOP', 1_000)
    expect([answer.status, answer.body]).toEqual([200, 'Say hello to me '])
    // Five words of the prompt, four of the answer.
    expect((await remainingTokens(gateway, 'ann')).month).toBe(MONTH - 9)
    const cut = await complete(gateway, 'ann', 'la', 12)
    expect(cut.body).toBe('la '.repeat(12))
    const { minute, month } = await remainingTokens(gateway, 'ann')
    expect(month).toBe(MONTH - 9 - 13)
    expect(minute).toBeGreaterThanOrEqual(2_000 - 9 - 13)
  })

  test('server failures cost nothing, before an answer and in the middle of it', async () => {
    const failed = await complete(gateway, 'bob', 'FAIL', 100)
    expect(failed.status).toBe(502)
    await expect(complete(gateway, 'bob', 'half an answer FAIL', 100)).rejects.toThrow('aborted')
    expect((await remainingTokens(gateway, 'bob')).month).toBe(MONTH)
  })

  test('answers in progress count with the tokens they reserve, and an abandoned one with those it generated', async () => {
    // This answer takes longer than this test: at least 5 ms for each token.
    const response = await begin(gateway, 'cleo', 1_500)
    expect((await remainingTokens(gateway, 'cleo')).month).toBeLessThanOrEqual(MONTH - 201)
    await until(
      'the reservation is extended',
      async () => (await remainingTokens(gateway, 'cleo')).month === MONTH - 401,
    )
    response.destroy()
    const { month } = await until('the answer is settled', async () => {
      const now = await remainingTokens(gateway, 'cleo')
      return now.month > MONTH - 401 && now
    })
    // The prompt, and the words that were generated before the extension.
    expect(month).toBeLessThanOrEqual(MONTH - 201)
    expect((await complete(gateway, 'cleo', 'short STOP', 100)).status).toBe(200)
  })

  test('an answer whose reservation cannot be extended stops, and its tokens are charged', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => complete(gateway, 'fay', 'la', 500)))
    const admitted = answers.filter(({ status }) => status === 200)
    const stopped = admitted.filter(({ body }) => body.length < 3 * 500)
    expect(stopped.length).toBeGreaterThan(0)
    const generated = admitted.map(({ body }) => body.match(/la /g)?.length ?? 0)
    const used = generated.reduce((sum, count) => sum + count + 1, 0)
    expect((await remainingTokens(gateway, 'fay')).month).toBe(MONTH - used)
    // The limit of a minute, and what came back while the answers were generated.
    expect(used).toBeLessThan(2_000 + 2_000)
  })

  test('a request that can never fit gets an error without a retry time', async () => {
    const answer = await complete(gateway, 'dan', 'all of it '.repeat(1_000), 5_000)
    expect(answer.status).toBe(413)
    expect(field(answer, 'retry-after')).toBeUndefined()
    expect((await complete(gateway, 'dan', 'none', 0)).status).toBe(400)
    expect(await remainingTokens(gateway, 'dan')).toEqual({ minute: 2_000, month: MONTH })
  })

  test('invalid customer names and JSON bodies are client errors', async () => {
    expect((await complete(gateway, 'x'.repeat(2_000), 'hello')).status).toBe(400)
    const headers = { 'content-type': 'application/json', 'x-customer': 'eve' }
    const broken = await fetch(`${gateway.url}/complete`, { method: 'POST', headers, body: '{' })
    expect(broken.status).toBe(400)
  })
})

test('the page of budgets has the program, in at most 60 lines', () => {
  const program = readFileSync(join(ROOT, 'examples', 'llm-gateway.mjs'), 'utf8')
  const [app = ''] = program
    .replace(/^(\/\/.*\n)+/, '')
    .replace(/^import { model }.*\n/m, '')
    .split('const server')
  const code = `${app}app.listen(PORT)\n`
  const shown = pages.find(({ path }) => path === 'docs/llm-budgets.md')?.blocks.map((block) => block.code)
  expect(shown).toContain(code)
  expect(code.split('\n').length - 1).toBeLessThanOrEqual(60)
})

test('a customer of a larger plan has its own limits', async () => {
  await using gateway = await serve('examples/llm-gateway.mjs', { REDIS_URL: '' })
  const headers = { 'x-customer': 'gus', 'x-plan': 'pro' }
  const answer = await sendRequest(`${gateway.url}/complete`, {
    headers,
    json: { prompt: 'all of it '.repeat(1_000), maxTokens: 1 },
  })
  expect(answer.status).toBe(200)
  const { body } = await sendRequest(`${gateway.url}/usage`, { headers })
  expect(JSON.parse(body).month.used).toBe(3_002)
  await endInOrder(gateway)
})

test('without Redis all requests fail, because costs would have no limit', async () => {
  await using server = await RedisServer.start()
  await using gateway = await serve('examples/llm-gateway.mjs', { REDIS_URL: server.url })
  expect((await complete(gateway, 'ann', 'hello STOP')).status).toBe(200)
  await server.kill()
  expect((await complete(gateway, 'ann', 'hello STOP')).status).toBe(503)
  await endInOrder(gateway)
})
