/** The gateway to a language model: what is charged for answers, whole, broken and left. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { RedisServer } from '../servers/redis-server.js'
import { until } from '../servers/until.js'
import { type Answer, ask, endInOrder, field, type Served, serve } from './run.js'

const MONTH = 10_000

const complete = (gateway: Served, customer: string, prompt: string, maxTokens?: number): Promise<Answer> =>
  ask(`${gateway.url}/complete`, { headers: { 'x-customer': customer }, json: { prompt, maxTokens } })

/** The tokens that a customer has left. */
async function left(gateway: Served, customer: string): Promise<{ minute: number; month: number }> {
  return JSON.parse((await ask(`${gateway.url}/usage`, { headers: { 'x-customer': customer } })).body)
}

/** A client who begins to read an answer. */
async function begin(gateway: Served, customer: string, maxTokens: number): Promise<IncomingMessage> {
  const { port } = new URL(gateway.url)
  const headers = { 'content-type': 'application/json', 'x-customer': customer }
  const asked = request({ port, host: '127.0.0.1', path: '/complete', method: 'POST', headers, agent: false })
  asked.on('error', () => {})
  asked.end(JSON.stringify({ prompt: 'again', maxTokens }))
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  response.on('error', () => {})
  await once(response, 'data')
  return response
}

describe.each(['in the process', 'over Redis'])('examples/llm-gateway.mjs, %s', (place) => {
  let server: RedisServer | undefined
  let gateway: Served

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

  test('charges what the prompt and the answer really took', async () => {
    const answer = await complete(gateway, 'ann', 'Say hello to me STOP', 1_000)
    expect([answer.status, answer.body]).toEqual([200, 'Say hello to me '])
    // Five words of the prompt, four of the answer.
    expect((await left(gateway, 'ann')).month).toBe(MONTH - 9)
    const cut = await complete(gateway, 'ann', 'la', 12)
    expect(cut.body).toBe('la '.repeat(12))
    const { minute, month } = await left(gateway, 'ann')
    expect(month).toBe(MONTH - 9 - 13)
    expect(minute).toBeGreaterThanOrEqual(2_000 - 9 - 13)
  })

  test('our failures cost nothing, before an answer and in its midst', async () => {
    const failed = await complete(gateway, 'bob', 'FAIL', 100)
    expect([failed.status, failed.body]).toEqual([502, '{"error":"The model failed"}'])
    await expect(complete(gateway, 'bob', 'half an answer FAIL', 100)).rejects.toThrow('aborted')
    expect((await left(gateway, 'bob')).month).toBe(MONTH)
  })

  test('answers under way count by their estimates, and one that is left by what was generated', async () => {
    // Longer than this test takes: 5 ms each, or more.
    const response = await begin(gateway, 'cleo', 1_500)
    expect((await left(gateway, 'cleo')).month).toBe(MONTH - 1_501)
    const second = await complete(gateway, 'cleo', 'me too', 1_500)
    expect([second.status, JSON.parse(second.body)]).toEqual([429, { error: 'No tokens left', policy: 'minute' }])
    // 2,000 a minute: what is lacking, about 1,000, comes within half of one.
    expect(Number(field(second, 'retry-after'))).toBeGreaterThan(0)
    expect(Number(field(second, 'retry-after'))).toBeLessThanOrEqual(31)
    response.destroy()
    const { month } = await until('the answer is settled', async () => {
      const now = await left(gateway, 'cleo')
      return now.month > MONTH - 1_501 && now
    })
    // The prompt, and at least the word that was read.
    expect(month).toBeLessThanOrEqual(MONTH - 2)
    expect((await complete(gateway, 'cleo', 'short STOP', 100)).status).toBe(200)
  })

  test('what can never fit is told so, with nothing to wait for', async () => {
    const answer = await complete(gateway, 'dan', 'all of it', 5_000)
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      413,
      { error: 'Too many tokens', policy: 'minute', limit: 2_000 },
    ])
    expect(field(answer, 'retry-after')).toBeUndefined()
    expect((await complete(gateway, 'dan', 'none', 0)).status).toBe(400)
    expect(await left(gateway, 'dan')).toEqual({ minute: 2_000, month: MONTH })
  })

  test('a customer’s name that cannot be a key, and a body that is no JSON, are the caller’s mistakes', async () => {
    expect((await complete(gateway, 'x'.repeat(2_000), 'hello')).status).toBe(400)
    const headers = { 'content-type': 'application/json', 'x-customer': 'eve' }
    const broken = await fetch(`${gateway.url}/complete`, { method: 'POST', headers, body: '{' })
    expect([broken.status, await broken.json()]).toEqual([400, { error: 'Bad request' }])
  })
})

test('without Redis there is no answer, as the bill knows no limit', async () => {
  await using server = await RedisServer.start()
  await using gateway = await serve('examples/llm-gateway.mjs', { REDIS_URL: server.url })
  expect((await complete(gateway, 'ann', 'hello STOP')).status).toBe(200)
  await server.kill()
  expect((await complete(gateway, 'ann', 'hello STOP')).status).toBe(503)
  await endInOrder(gateway)
})
