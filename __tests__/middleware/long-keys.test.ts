/** Keys that are longer than a limiter accepts, in each framework. */
import { createHash } from 'node:crypto'
import { fixedWindow, RateLimiter } from '../../ts/index.js'
import { withoutLongStrings } from '../../ts/middleware/shared/long-key.js'
import { FRAMEWORKS, type ServedApp } from './frameworks.js'
import { warningsOf } from './warnings.js'

const open: ServedApp[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((served) => served.close()))
})

/** The key that replaces a text, by the formula of the docs. */
const digestOf = (text: string) => `long-key:sha256:${createHash('sha256').update(text).digest('hex')}`

const TOKEN = `eyJ${'hb'.repeat(700)}`

const window = { limit: 5, window: '1h' } as const

describe.each(FRAMEWORKS.map((framework) => [framework.name, framework] as const))('%s', (_, framework) => {
  test('a long key counts by its digest, apart from other long keys', async () => {
    const limiter = new RateLimiter(fixedWindow(window))
    const key = (...args: unknown[]) => `${TOKEN}${framework.header(args, 'x-user')}`
    const route = async () => ({ status: 200, body: 'through' })
    const served = await framework.serve({ options: { limiter, key }, route })
    open.push(served)
    const warnings = await warningsOf(async () => {
      for (const user of ['ann', 'ann', 'bob']) {
        expect((await fetch(served.url, { headers: { 'x-user': user } })).status).toBe(200)
      }
    })
    expect(warnings).toEqual([])
    expect((await limiter.peek(digestOf(`${TOKEN}ann`))).remaining).toBe(3)
    expect((await limiter.peek(digestOf(`${TOKEN}bob`))).remaining).toBe(4)
  })

  test('so does a long part of a key, also from onInvalidInput', async () => {
    const limiter = new RateLimiter({
      ip: fixedWindow({ ...window, per: 'ip' }),
      token: fixedWindow({ ...window, per: 'token' }),
    })
    const key = (...args: unknown[]) => ({ ip: 'x', token: framework.header(args, 'x-user') && TOKEN })
    const onInvalidInput = () => ({ key: { ip: 'y', token: `${TOKEN}2` } })
    const route = async () => ({ status: 200, body: 'through' })
    const served = await framework.serve({ options: { limiter, key, onInvalidInput }, route })
    open.push(served)
    expect((await fetch(served.url, { headers: { 'x-user': 'ann' } })).status).toBe(200)
    expect((await fetch(served.url)).status).toBe(200)
    const remaining = async (ip: string, token: string) => {
      const { policies } = await limiter.peek({ ip, token: digestOf(token) })
      return [policies.ip.remaining, policies.token.remaining]
    }
    expect([await remaining('x', TOKEN), await remaining('y', `${TOKEN}2`)]).toEqual([
      [4, 4],
      [4, 4],
    ])
  })
})

test('keys that fit are unchanged, at once', () => {
  const fitting = ['ann', 'x'.repeat(1_024), 'ä'.repeat(512), '', 'long-key:sha256:', undefined, null, 5, ['x']]
  for (const key of [...fitting, { ip: 'x'.repeat(1_024) }]) {
    expect(withoutLongStrings(key)).toBe(key)
  }
})

test('the first byte too many, in any script, is the limit', async () => {
  for (const key of ['x'.repeat(1_025), 'ä'.repeat(513), '世'.repeat(342), '😀'.repeat(257)]) {
    expect(await withoutLongStrings(key)).toBe(digestOf(key))
  }
})

// promise: long-keys
test('a client cannot choose a short key that counts as the long key of another', async () => {
  const forged = digestOf(TOKEN)
  expect(await withoutLongStrings(forged)).toBe(digestOf(forged))
  expect(await withoutLongStrings({ a: forged, b: 'ann' })).toEqual({ a: digestOf(forged), b: 'ann' })
  expect(withoutLongStrings(forged.toUpperCase())).toBe(forged.toUpperCase())
})

test.each([
  ['key', `${TOKEN}\ud800`],
  ['key.token', { ip: 'x', token: `\udc00${TOKEN}` }],
])('ill-formed texts have no digest: %s', async (name, key) => {
  const message = `${name} must be a well-formed string, got one with a lone surrogate`
  await expect(withoutLongStrings(key)).rejects.toThrow(expect.objectContaining({ code: 'INVALID_KEY', message }))
})
