/** The login: what guessing costs, what a login costs, and what an answer tells. */
import { RedisServer } from '../servers/redis-server.js'
import { type Answer, ask, askTimes, endInOrder, field, type Served, serve, statuses } from './run.js'

const RIGHT = 'correct horse'

const codes = (answers: readonly Answer[]) => answers.map(({ status }) => status)

const attempt = (password: string, account = 'ann@example.com') => ({ account, password })

/** All that an answer tells, but for its date. */
const told = ({ status, headers: { date, ...headers }, body }: Answer) => ({ status, headers, body })

let app: Served
let login: string

beforeEach(async () => {
  app = await serve('examples/login.mjs')
  login = `${app.url}/login`
})

afterEach(async () => {
  await using ended = app
  await endInOrder(ended)
})

test('an account has five wrong passwords, from wherever they come; then the right one is refused, too', async () => {
  const wrong: Answer[] = []
  for (let guess = 0; guess < 7; guess++) {
    wrong.push(await ask(login, { json: attempt(`guess ${guess}`), from: `127.0.0.${10 + guess}` }))
  }
  expect(codes(wrong)).toEqual([401, 401, 401, 401, 401, 429, 429])
  const refused = await ask(login, { json: attempt(RIGHT), from: '127.0.0.50' })
  expect(told(refused)).toMatchObject({ status: 429, body: '{"error":"Too many attempts"}' })
  // Until the first of the five is a quarter of an hour ago.
  expect(Number(field(refused, 'retry-after'))).toBeGreaterThan(840)
  expect(Number(field(refused, 'retry-after'))).toBeLessThanOrEqual(900)
  // However it is written, it is the same account.
  expect((await ask(login, { json: attempt(RIGHT, ' ANN@example.com '), from: '127.0.0.51' })).status).toBe(429)
  // Another one is not concerned.
  expect((await ask(login, { json: attempt('no', 'bob@example.com'), from: '127.0.0.50' })).status).toBe(401)
})

test('logins cost nothing, but give back nothing that failures took', async () => {
  expect(statuses(await askTimes(40, login, { json: attempt(RIGHT) }))).toEqual({ 200: 40 })
  expect(codes(await askTimes(4, login, { json: attempt('wrong') }))).toEqual([401, 401, 401, 401])
  expect(statuses(await askTimes(5, login, { json: attempt(RIGHT) }))).toEqual({ 200: 5 })
  expect(codes(await askTimes(2, login, { json: attempt('wrong') }))).toEqual([401, 429])
})

test('an address has ten failures over all accounts, and is then blocked for an hour', async () => {
  const from = '127.0.0.3'
  const failed: Answer[] = []
  for (let guess = 0; guess < 12; guess++) {
    failed.push(await ask(login, { json: attempt('password', `user${guess}@example.com`), from }))
  }
  expect(codes(failed)).toEqual([...new Array(10).fill(401), 429, 429])
  const blocked = await ask(login, { json: attempt(RIGHT), from })
  expect(blocked.status).toBe(429)
  expect(Number(field(blocked, 'retry-after'))).toBeGreaterThan(3540)
  expect(Number(field(blocked, 'retry-after'))).toBeLessThanOrEqual(3600)
  // The accounts are not: their owners come from elsewhere.
  expect((await ask(login, { json: attempt(RIGHT) })).status).toBe(200)
})

test('guesses at once are bounded by the units of the account', async () => {
  const guesses = Array.from({ length: 40 }, (_, guess) =>
    ask(login, { json: attempt(`guess ${guess}`), from: `127.0.1.${guess}` }),
  )
  const { 401: looked = 0, 429: refused = 0 } = statuses(await Promise.all(guesses))
  expect(looked + refused).toBe(40)
  expect(looked).toBeGreaterThanOrEqual(5)
  expect(looked).toBeLessThanOrEqual(15)
})

test('nothing tells whether an account exists', async () => {
  const answers = async (account: string, from: string) => {
    const all = await askTimes(7, login, { json: attempt('wrong', account), from })
    return all.map(told)
  }
  const existing = await answers('ann@example.com', '127.0.0.4')
  const missing = await answers('eve@example.com', '127.0.0.5')
  // A second may begin between the two.
  const comparable = (all: ReturnType<typeof told>[]) => JSON.stringify(all).replaceAll(/"retry-after":"\d+"/g, '')
  expect(comparable(missing)).toBe(comparable(existing))
  expect(existing.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401, 429, 429])
})

test('what is no attempt is refused, and counts for nobody', async () => {
  const none = [{}, { account: 'ann@example.com' }, { account: 5, password: 'x' }, attempt('x', '  ')]
  for (const json of none) expect((await ask(login, { json })).status).toBe(400)
  expect((await ask(login, { json: attempt('x', 'a'.repeat(1025)) })).status).toBe(400)
  expect(statuses(await askTimes(30, login, { json: {} }))).toEqual({ 400: 30 })
  expect((await ask(login, { json: attempt(RIGHT) })).status).toBe(200)
})

test('over Redis two processes keep one count, and without Redis nobody gets in', async () => {
  await using server = await RedisServer.start()
  await using one = await serve('examples/login.mjs', { REDIS_URL: server.url })
  await using other = await serve('examples/login.mjs', { REDIS_URL: server.url })
  const wrong = { json: attempt('wrong') }
  expect(codes(await askTimes(3, `${one.url}/login`, wrong))).toEqual([401, 401, 401])
  expect(codes(await askTimes(3, `${other.url}/login`, wrong))).toEqual([401, 401, 429])
  await server.kill()
  const lost = await ask(`${one.url}/login`, { json: attempt(RIGHT) })
  expect(told(lost)).toMatchObject({ status: 503, body: '{"error":"Try again later"}' })
  await endInOrder(one)
  await endInOrder(other)
})
