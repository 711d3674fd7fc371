/** The default key: the client's address, never an unverified header. */
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fixedWindow, gcra, RateLimiter } from '../../ts/index.js'
import { FRAMEWORKS, type Framework, type ServedApp, type Setup } from './frameworks.js'
import { warningsOf } from './warnings.js'

const open: ServedApp[] = []
let sockets = 0

afterEach(async () => {
  await Promise.all(open.splice(0).map((served) => served.close()))
})

async function serve(framework: Framework, setup: Partial<Setup> & { readonly options: object }): Promise<ServedApp> {
  const served = await framework.serve({ route: async () => ({ status: 200, body: 'ok' }), ...setup })
  open.push(served)
  return served
}

const limiterOf = (limit: number) => new RateLimiter(fixedWindow({ limit, window: '1h' }))

/** The statuses of sequential requests with these values of `X-Forwarded-For`. */
async function statuses({ url }: ServedApp, forwarded: readonly string[]): Promise<number[]> {
  const all: number[] = []
  for (const value of forwarded) {
    const response = await fetch(url, { headers: { 'X-Forwarded-For': value } })
    await response.arrayBuffer()
    all.push(response.status)
  }
  return all
}

const addressed = FRAMEWORKS.filter(({ hasAddress }) => hasAddress).map(
  (framework) => [framework.name, framework] as const,
)

describe.each(addressed)('%s', (_, framework) => {
  // promise: no-forwarded-for
  test('a client that writes X-Forwarded-For keeps its key, and the possible proxy causes one warning', async () => {
    const served = await serve(framework, { options: { limiter: limiterOf(2) } })
    const warnings = await warningsOf(async () => {
      expect(await statuses(served, ['192.0.2.1', '192.0.2.2', '192.0.2.3'])).toEqual([200, 200, 429])
    })
    expect(warnings.map(({ code }) => code)).toEqual(['TOLLGATE_UNTRUSTED_PROXY'])
  })

  test('behind a trusted proxy clients have separate keys, and there is no warning', async () => {
    const served = await serve(framework, { options: { limiter: limiterOf(1) }, trustsProxy: true })
    const warnings = await warningsOf(async () => {
      expect(await statuses(served, ['192.0.2.1', '192.0.2.2', '192.0.2.1'])).toEqual([200, 200, 429])
    })
    expect(warnings).toEqual([])
  })

  test('a client that changes addresses within an IPv6 network keeps its key', async () => {
    const served = await serve(framework, { options: { limiter: limiterOf(2) }, trustsProxy: true })
    const network = ['2001:db8:0:7f01::1', '2001:db8:0:7fff:1:2:3:4', '2001:db8::7f80:ffff:0:0:9']
    expect(await statuses(served, network)).toEqual([200, 200, 429])
    expect(await statuses(served, ['2001:db8:0:8000::1'])).toEqual([200])
  })

  test('an IPv4 client has one key for all forms of its address', async () => {
    const served = await serve(framework, { options: { limiter: limiterOf(1) }, trustsProxy: true })
    expect(await statuses(served, ['192.0.2.1', '::ffff:192.0.2.1', '::ffff:c000:201'])).toEqual([200, 429, 429])
  })

  test('a port that a proxy adds to an address changes no key', async () => {
    const served = await serve(framework, { options: { limiter: limiterOf(1) }, trustsProxy: true })
    expect(await statuses(served, ['192.0.2.1:61598', '192.0.2.1:443', '192.0.2.2:61598'])).toEqual([200, 429, 200])
    expect(await statuses(served, ['[2001:db8::7]:443', '2001:db8::7'])).toEqual([200, 429])
  })

  test('IPv4 clients behind a NAT64 translator have separate keys', async () => {
    const served = await serve(framework, { options: { limiter: limiterOf(1) }, trustsProxy: true })
    const clients = ['64:ff9b::192.0.2.1', '64:ff9b::192.0.2.2', '192.0.2.1']
    expect(await statuses(served, clients)).toEqual([200, 200, 429])
  })

  test('a number of proxies that the framework does not use, or that is too high, causes a warning', async () => {
    const served = await serve(framework, { options: { limiter: limiterOf(9) }, trustsProxy: 2 })
    const warnings = await warningsOf(async () => {
      expect(await statuses(served, ['192.0.2.1, 198.51.100.7'])).toEqual([200])
    })
    // Fastify ignores numbers since 5.12, and takes the proxy's address.
    const isIgnored = framework.name === 'Fastify'
    expect(warnings.map(({ code }) => code)).toEqual(isIgnored ? ['TOLLGATE_UNTRUSTED_PROXY'] : [])
    const more = await warningsOf(() => statuses(served, ['192.0.2.1']))
    // The Fastify of Nest uses numbers, but does not show them.
    const isShown = !framework.name.includes('Fastify')
    expect(more.map(({ code }) => code)).toEqual(isShown ? ['TOLLGATE_TOO_MANY_PROXIES'] : [])
  })

  test('an invalid address gets status 400, and no key', async () => {
    const errors: unknown[] = []
    const options = { limiter: limiterOf(100), onInvalidInput: (error: unknown) => void errors.push(error) }
    const served = await serve(framework, { options, trustsProxy: true })
    expect(await statuses(served, ['unknown', '192.0.2.1:80:80'])).toContain(400)
    expect(errors.length).toBeGreaterThan(0)
    for (const error of errors) {
      expect(error).toMatchObject({ code: 'INVALID_KEY' })
      expect((error as Error).message).not.toMatch(/unknown|192/)
    }
  })

  test('clients without an address get status 400, share no key, and cause a warning', async () => {
    const path = join(tmpdir(), `tollgate-${process.pid}-${sockets++}.sock`)
    const limiter = new RateLimiter(gcra({ limit: 100, period: '1h' }))
    const take = jest.fn(limiter.take.bind(limiter))
    const refund = limiter.refund.bind(limiter)
    await serve(framework, { options: { limiter: { policies: limiter.policies, take, refund } }, path })
    const [warning] = await warningsOf(async () => {
      const status = await new Promise((resolve, reject) => {
        const client = request({ socketPath: path, path: '/' }, (response) => {
          response.resume().on('end', () => resolve(response.statusCode))
        })
        client.on('error', reject).end()
      })
      expect(status).toBe(400)
    })
    expect(warning?.message).toMatch(/the request has no client address: pass a key function/)
    expect(take).not.toHaveBeenCalled()
  })
})

test.each(addressed)('%s: an app that trusts every proxy', async (name, framework) => {
  const served = await serve(framework, { options: { limiter: limiterOf(1) }, trustsProxy: 'every' })
  const warnings = await warningsOf(async () => {
    // A client that writes another address has another key.
    const forged = ['192.0.2.1, 198.51.100.7', '192.0.2.2, 198.51.100.7', '192.0.2.1, 198.51.100.7']
    expect(await statuses(served, forged)).toEqual([200, 200, 429])
  })
  // Fastify does not show this setting.
  const expected = name.includes('Fastify') ? [] : ['TOLLGATE_PERMISSIVE_PROXY']
  expect(warnings.map(({ code }) => code)).toEqual(expected)
})

test.each(addressed)('%s: a key function needs no proxy', async (_, framework) => {
  const options = { limiter: limiterOf(9), key: () => 'ann' }
  const served = await serve(framework, { options, trustsProxy: 'every' })
  expect(await warningsOf(() => statuses(served, ['192.0.2.1']))).toEqual([])
})

test('a framework without addresses requires a key', async () => {
  for (const framework of FRAMEWORKS.filter(({ hasAddress }) => !hasAddress)) {
    await expect(serve(framework, { options: { limiter: limiterOf(1) } })).rejects.toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining('key must be given') }),
    )
  }
})
