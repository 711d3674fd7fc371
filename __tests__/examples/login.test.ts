/** The login: the cost of guessing, the cost of a login, and the information in an answer. */
import { RedisServer } from '../servers/redis-server.js'
import {
  type Answer,
  endInOrder,
  field,
  type ServedExample,
  sendRepeatedly,
  sendRequest,
  serve,
  statuses,
} from './run.js'

const RIGHT = 'correct horse'

const codes = (answers: readonly Answer[]) => answers.map(({ status }) => status)

const attempt = (password: string, account = 'ann@example.com') => ({ account, password })

/** All of an answer except its date. */
const contentOf = ({ status, headers: { date, ...headers }, body }: Answer) => ({ status, headers, body })

let app: ServedExample
let login: string

beforeEach(async () => {
  app = await serve('examples/login.mjs')
  login = `${app.url}/login`
})

afterEach(async () => {
  await using ended = app
  await endInOrder(ended)
})

test('an account has five wrong passwords from all addresses together; then the right one is refused, too', async () => {
  const wrong: Answer[] = []
  for (let guess = 0; guess < 7; guess++) {
    wrong.push(await sendRequest(login, { json: attempt(`guess ${guess}`), from: `127.0.0.${10 + guess}` }))
  }
  expect(codes(wrong)).toEqual([401, 401, 401, 401, 401, 429, 429])
  const refused = await sendRequest(login, { json: attempt(RIGHT), from: '127.0.0.50' })
  expect(contentOf(refused)).toMatchObject({ status: 429, body: '{"error":"Too many attempts"}' })
  // Until the first of the five is a quarter of an hour old.
  expect(Number(field(refused, 'retry-after'))).toBeGreaterThan(840)
  expect(Number(field(refused, 'retry-after'))).toBeLessThanOrEqual(900)
  // Another spelling is the same account.
  expect((await sendRequest(login, { json: attempt(RIGHT, ' ANN@example.com '), from: '127.0.0.51' })).status).toBe(429)
  // Another account is not affected.
  expect((await sendRequest(login, { json: attempt('no', 'bob@example.com'), from: '127.0.0.50' })).status).toBe(401)
})

test('successful logins cost nothing, and do not refund failures', async () => {
  expect(statuses(await sendRepeatedly(40, login, { json: attempt(RIGHT) }))).toEqual({ 200: 40 })
  expect(codes(await sendRepeatedly(4, login, { json: attempt('wrong') }))).toEqual([401, 401, 401, 401])
  expect(statuses(await sendRepeatedly(5, login, { json: attempt(RIGHT) }))).toEqual({ 200: 5 })
  expect(codes(await sendRepeatedly(2, login, { json: attempt('wrong') }))).toEqual([401, 429])
})

test('an address has ten failures over all accounts, and is then blocked for an hour', async () => {
  const from = '127.0.0.3'
  const failed: Answer[] = []
  for (let guess = 0; guess < 12; guess++) {
    failed.push(await sendRequest(login, { json: attempt('password', `user${guess}@example.com`), from }))
  }
  expect(codes(failed)).toEqual([...new Array(10).fill(401), 429, 429])
  const blocked = await sendRequest(login, { json: attempt(RIGHT), from })
  expect(blocked.status).toBe(429)
  expect(Number(field(blocked, 'retry-after'))).toBeGreaterThan(3540)
  expect(Number(field(blocked, 'retry-after'))).toBeLessThanOrEqual(3600)
  // The accounts are not blocked for other addresses.
  expect((await sendRequest(login, { json: attempt(RIGHT) })).status).toBe(200)
})

test('parallel guesses are bounded by the units of the account', async () => {
  const guesses = Array.from({ length: 40 }, (_, guess) =>
    sendRequest(login, { json: attempt(`guess ${guess}`), from: `127.0.1.${guess}` }),
  )
  const { 401: unauthorized = 0, 429: refused = 0 } = statuses(await Promise.all(guesses))
  expect(unauthorized + refused).toBe(40)
  expect(unauthorized).toBeGreaterThanOrEqual(5)
  expect(unauthorized).toBeLessThanOrEqual(15)
})

test('answers do not reveal whether an account exists', async () => {
  const answers = async (account: string, from: string) => {
    const all = await sendRepeatedly(7, login, { json: attempt('wrong', account), from })
    return all.map(contentOf)
  }
  const existing = await answers('ann@example.com', '127.0.0.4')
  const missing = await answers('eve@example.com', '127.0.0.5')
  // A new second may start between the two.
  const comparable = (all: ReturnType<typeof contentOf>[]) => JSON.stringify(all).replaceAll(/"retry-after":"\d+"/g, '')
  expect(comparable(missing)).toBe(comparable(existing))
  expect(existing.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401, 429, 429])
})

test('invalid attempts are refused, and charge nobody', async () => {
  const none = [{}, { account: 'ann@example.com' }, { account: 5, password: 'x' }, attempt('x', '  ')]
  for (const json of none) expect((await sendRequest(login, { json })).status).toBe(400)
  expect((await sendRequest(login, { json: attempt('x', 'a'.repeat(1025)) })).status).toBe(400)
  expect(statuses(await sendRepeatedly(30, login, { json: {} }))).toEqual({ 400: 30 })
  expect((await sendRequest(login, { json: attempt(RIGHT) })).status).toBe(200)
})

test('over Redis two processes keep one count, and without Redis every login fails', async () => {
  await using server = await RedisServer.start()
  await using one = await serve('examples/login.mjs', { REDIS_URL: server.url })
  await using other = await serve('examples/login.mjs', { REDIS_URL: server.url })
  const wrong = { json: attempt('wrong') }
  expect(codes(await sendRepeatedly(3, `${one.url}/login`, wrong))).toEqual([401, 401, 401])
  expect(codes(await sendRepeatedly(3, `${other.url}/login`, wrong))).toEqual([401, 401, 429])
  await server.kill()
  const lost = await sendRequest(`${one.url}/login`, { json: attempt(RIGHT) })
  expect(contentOf(lost)).toMatchObject({ status: 503, body: '{"error":"Try again later"}' })
  await endInOrder(one)
  await endInOrder(other)
})
