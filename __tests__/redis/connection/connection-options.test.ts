/**
 * Every kind of connection to one server: TCP, a unix socket, TLS, users and their passwords,
 * databases.
 */

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { inspect, promisify } from 'node:util'
import { gcra, RateLimiter, RedisStore, type RedisStoreOptions, type TollgateError } from '../../../ts/index.js'
import {
  CertificateAuthority,
  type CertifiedKey,
  selfSigned,
  versionOne,
  withCriticalPolicies,
} from '../../servers/certificates.js'
import { RedisServer, type RedisServerOptions } from '../../servers/redis-server.js'
import { until } from '../../servers/until.js'
import { LATE_MS, type Outcome, outcome, PATIENT_MS } from '../help.js'

const PASSWORD = 'pa:ss/wörd@%?#'
const POLICY = gcra({ limit: 10, period: '1h' })
const ENCODED = encodeURIComponent(PASSWORD)

/** Takes one unit with a new store, and closes the store. */
async function take(options: string | RedisStoreOptions, key = 'key'): Promise<Outcome> {
  const timeouts = { commandTimeout: PATIENT_MS }
  const given = typeof options === 'string' ? { url: options } : options
  await using store = new RedisStore({ ...timeouts, ...given })
  return outcome(new RateLimiter(POLICY, { store, prefix: 'ways' }).take(key))
}

async function served(options: RedisServerOptions, run: (server: RedisServer) => Promise<void>): Promise<void> {
  await using server = await RedisServer.start(options)
  await run(server)
}

/** Expects sequential units of one key, each through another connection. */
async function expectSameKey(connections: readonly (string | RedisStoreOptions)[]): Promise<void> {
  for (const [index, connection] of connections.entries()) {
    const { decision, error } = await take(connection)
    expect(error).toBeUndefined()
    expect(decision?.remaining).toBe(POLICY.limit - 1 - index)
  }
}

/** The deadline of calls that must fail, in milliseconds. */
const SHORT_MS = 300

/**
 * Expects that no call succeeds, and that soon one has the reason; none has a password in its error. On a busy machine,
 * the deadline may pass before the engine tells its reason.
 */
async function expectRefused(options: string | RedisStoreOptions, why: RegExp): Promise<void> {
  const given = typeof options === 'string' ? { url: options } : options
  await using store = new RedisStore({ commandTimeout: SHORT_MS, ...given })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'ways' })
  const errors: (TollgateError | undefined)[] = []
  await until(`a call fails because of ${why}`, async () => {
    const { error } = await outcome(limiter.take('key'))
    errors.push(error)
    return error === undefined || (error.code === 'STORE_UNAVAILABLE' && why.test(error.message))
  })
  expect(errors.at(-1)).toMatchObject({ code: 'STORE_UNAVAILABLE', charged: false })
  for (const error of errors) {
    expect(error?.code).toMatch(/^STORE_(UNAVAILABLE|TIMEOUT)$/)
    const shown = inspect(error, { depth: 9 })
    for (const secret of [PASSWORD, ENCODED, 'wrong-password']) {
      expect(shown).not.toContain(secret)
    }
  }
}

test('TCP and unix sockets, by URL or by options, reach the same key', async () => {
  await served({}, async ({ url, port, socketPath }) => {
    await expectSameKey([
      url,
      { url },
      { host: '127.0.0.1', port },
      { host: 'localhost', port },
      { path: socketPath },
      `redis+unix://${socketPath}`,
    ])
  })
})

test('databases keep their keys apart', async () => {
  await served({}, async ({ url, port, socketPath }) => {
    await expectSameKey([url, { host: '127.0.0.1', port, database: 0 }])
    await expectSameKey([
      `${url}/3`,
      { url, database: 3 },
      { url: `${url}/5`, database: 3 },
      `redis+unix://${socketPath}?db=3`,
    ])
    await expectRefused(`${url}/99`, /DB index is out of range/)
  })
})

test('the default user and ACL users log in; nobody else does', async () => {
  const users = [`user default on >${PASSWORD} ~* +@all`, `user gate on >${PASSWORD} ~ways:* +@all`]
  const options = { config: ['aclfile users.acl'], files: { 'users.acl': `${users.join('\n')}\n` } }
  await served({ ...options, credentials: { password: PASSWORD } }, async ({ url, port, socketPath }) => {
    const at = `127.0.0.1:${port}`
    await expectSameKey([
      `redis://:${ENCODED}@${at}`,
      `redis://default:${ENCODED}@${at}`,
      `redis://gate:${ENCODED}@${at}`,
      { host: '127.0.0.1', port, username: 'gate', password: PASSWORD },
      { url, password: PASSWORD },
      { url, credentials: () => ({ password: PASSWORD }) },
      { url, credentials: async () => ({ username: 'gate', password: PASSWORD }) },
      `redis+unix://${socketPath}?user=gate&pass=${ENCODED}`,
    ])
    await expectRefused(url, /NOAUTH|Authentication required/)
    await expectRefused(`redis://:wrong-password@${at}`, /WRONGPASS|authentication failed/i)
    await expectRefused(`redis://nobody:${ENCODED}@${at}`, /WRONGPASS|authentication failed/i)
  })
})

test('a user without a required permission gets an error that names it', async () => {
  const users = [
    `user default on nopass ~* +@all`,
    `user mute on >${PASSWORD} ~* +@all -evalsha -eval`,
    `user elsewhere on >${PASSWORD} ~other:* +@all`,
    `user least on >${PASSWORD} ~ways:* +evalsha +eval +time +@read +@write`,
  ]
  const options = { config: ['aclfile users.acl'], files: { 'users.acl': `${users.join('\n')}\n` } }
  await served(options, async ({ url }) => {
    for (const [username, why] of [
      ['mute', /NOPERM|permissions? to run the 'evalsha' command/i],
      ['elsewhere', /NOPERM|key/i],
    ] as const) {
      const { error, ms } = await take({ url, username, password: PASSWORD })
      expect(error).toMatchObject({ code: 'STORE_ERROR', charged: false })
      expect(error?.message).toMatch(why)
      // Long before the deadline.
      expect(ms).toBeLessThan(LATE_MS)
    }
    // A user without PING and CLIENT can still take units.
    const { decision, error } = await take({ url, username: 'least', password: PASSWORD })
    expect(error).toBeUndefined()
    expect(decision?.allowed).toBe(true)
  })
})

test('credentials that fail, return nothing or never arrive do not delay a call beyond its deadline', async () => {
  await served({ config: [`requirepass ${ENCODED}`], credentials: { password: ENCODED } }, async ({ url }) => {
    const never = () => new Promise<never>(() => {})
    const fails = () => Promise.reject(new RangeError('wrong-password'))
    const nothing = (() => ({})) as unknown as () => { password: string }
    await expectRefused({ url, credentials: fails }, /credentials failed with RangeError/)
    await expectRefused({ url, credentials: nothing }, /credentials must return \{ username\?, password \}/)
    await expectRefused({ url, credentials: never, connectTimeout: 200 }, /in time|connecting/)
  })
})

test('a password changed at run time is requested, and no call fails because of it', async () => {
  await using server = await RedisServer.start({ config: ['requirepass first'], credentials: { password: 'first' } })
  let password = 'first'
  let requests = 0
  const credentials = async () => {
    requests++
    return { password }
  }
  await using store = new RedisStore({ url: server.url, credentials, commandTimeout: PATIENT_MS })
  const limiter = new RateLimiter(POLICY, { store, prefix: 'ways' })
  expect((await limiter.take('key')).remaining).toBe(9)
  const before = requests
  password = 'second'
  await server.command('CONFIG', 'SET', 'requirepass', password)
  server.credentials = { password }
  await server.command('CLIENT', 'KILL', 'TYPE', 'normal')
  // The reconnect happens in the background, and a call made meanwhile waits for it.
  await until('the credentials are asked for', async () => requests > before)
  expect((await limiter.take('key')).remaining).toBe(8)
})

describe('TLS', () => {
  let authority: CertificateAuthority
  let other: CertificateAuthority

  beforeAll(async () => {
    authority = await CertificateAuthority.make()
    other = await CertificateAuthority.make()
  })

  test('a server with a trusted certificate is accepted, by its name', async () => {
    const server = await authority.issue()
    const ca = authority.certificate
    await served({ tls: { server } }, async ({ tlsUrl, port }) => {
      await expectSameKey([
        { url: tlsUrl, tls: { ca } },
        { host: 'localhost', port, tls: { ca } },
        { host: '127.0.0.1', port, tls: { ca: Buffer.from(ca) } },
        { host: 'localhost', port, tls: { ca: `${other.certificate}\n${ca}` } },
      ])
      // Other clients do not trust it.
      await expectRefused(tlsUrl, /certificate|UnknownIssuer/i)
      await expectRefused({ url: tlsUrl, tls: { ca: other.certificate } }, /certificate|UnknownIssuer/i)
      // Plain TCP fails.
      await expectRefused({ host: 'localhost', port }, /./)
    })
  })

  test('a certificate for another name is refused, unless that name is configured', async () => {
    const server = await authority.issue({ hosts: ['redis.example'] })
    const ca = authority.certificate
    await served({ tls: { server } }, async ({ tlsUrl }) => {
      await expectRefused({ url: tlsUrl, tls: { ca } }, /certificate.*name|NotValidForName/i)
      await expectSameKey([{ url: tlsUrl, tls: { ca, serverName: 'redis.example' } }])
    })
  })

  test('a trusted certificate is accepted as that of the server, if it is valid and its names fit', async () => {
    const own = await selfSigned()
    const leaf = await other.issue()
    const nameless = await selfSigned({ hosts: [] })
    for (const server of [own, leaf, nameless]) {
      await served({ tls: { server } }, async ({ tlsUrl }) => {
        await expectSameKey([
          { url: tlsUrl, tls: { ca: server.certificate } },
          { url: tlsUrl, tls: { ca: `${authority.certificate}\n${server.certificate}` } },
        ])
        await expectRefused({ url: tlsUrl, tls: { ca: authority.certificate } }, /tls\.ca/)
      })
    }
    const [elsewhere, expired] = [await selfSigned({ hosts: ['redis.example'] }), await selfSigned({ isExpired: true })]
    await served({ tls: { server: elsewhere } }, async ({ tlsUrl }) => {
      const ca = elsewhere.certificate
      await expectRefused({ url: tlsUrl, tls: { ca } }, /only valid for .*redis\.example.*: .*tls\.serverName/)
      await expectSameKey([{ url: tlsUrl, tls: { ca, serverName: 'redis.example' } }])
    })
    await served({ tls: { server: expired } }, async ({ tlsUrl }) => {
      await expectRefused({ url: tlsUrl, tls: { ca: expired.certificate } }, /expired/i)
    })
  })

  test('a certificate with a common name alone, or of X.509 version 1, is refused with the way out', async () => {
    const nameless = await authority.issue({ hosts: [] })
    await served({ tls: { server: nameless } }, async ({ tlsUrl }) => {
      await expectRefused({ url: tlsUrl, tls: { ca: authority.certificate } }, /no subjectAltName.*tls\.ca/)
      await expectSameKey([{ url: tlsUrl, tls: { ca: nameless.certificate } }])
    })
    const old = versionOne()
    await served({ tls: { server: old } }, async ({ tlsUrl }) => {
      await expectRefused(
        { url: tlsUrl, tls: { ca: old.certificate } },
        /X\.509 v1 certificate: issue one of version 3/,
      )
    })
  })

  test('a certificate with a key, a signature or an extension that is not supported is refused with the way out', async () => {
    const ca = authority.certificate
    const old = await CertificateAuthority.make('old', 'P-521')
    const [weak, byOld, odd] = [await selfSigned({ keyKind: 'RSA 1024' }), await old.issue(), withCriticalPolicies()]
    const cases: [server: CertifiedKey, ca: string, reason: RegExp][] = [
      [await selfSigned({ keyKind: 'P-521' }), ca, /If its key is P-521, issue a certificate for a key of RSA, P-256/],
      [weak, weak.certificate, /RSA with less than 2048 bits: issue a certificate/],
      [byOld, old.certificate, /its authority signs with .* such as P-521 or SHA-1: issue it by/],
      [odd, ca, /a critical extension .* such as certificatePolicies: issue it without/],
    ]
    for (const [{ certificate: cert, key }, ca, reason] of cases) {
      // OpenSSL accepts short keys only with this level.
      const server = createServer({ cert, key, ciphers: 'DEFAULT@SECLEVEL=0' }).on('tlsClientError', () => {})
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      await expectRefused({ host: 'localhost', port, tls: { ca } }, reason)
      server.close()
    }
    await served({ tls: { server: byOld } }, async ({ tlsUrl }) => {
      await expectSameKey([{ url: tlsUrl, tls: { ca: `${old.certificate}\n${byOld.certificate}` } }])
    })
  })

  test('the authorities of NODE_EXTRA_CA_CERTS are trusted, unless a ca is given', async () => {
    const server = await authority.issue()
    const folder = await mkdtemp(join(tmpdir(), 'tollgate-extra-'))
    const file = join(folder, 'extra.pem')
    const run = async (url: string, NODE_EXTRA_CA_CERTS: string, tls: object = {}) => {
      const program = join(__dirname, '..', 'programs', 'take-over-tls.mjs')
      const env = { ...process.env, NODE_EXTRA_CA_CERTS }
      const { stdout } = await promisify(execFile)(process.execPath, [program, url, JSON.stringify(tls)], { env })
      return stdout.trim()
    }
    try {
      await writeFile(file, `${other.certificate}\n${authority.certificate}`)
      await served({ tls: { server } }, async ({ tlsUrl }) => {
        expect(await run(tlsUrl, file)).toBe('allowed')
        expect(await run(tlsUrl, file, { ca: other.certificate })).toMatch(/tls\.ca/)
        expect(await run(tlsUrl, join(folder, 'missing'))).toMatch(/NODE_EXTRA_CA_CERTS is not readable/)
      })
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('an expired certificate is refused', async () => {
    const server = await authority.issue({ isExpired: true })
    await served({ tls: { server } }, async ({ tlsUrl }) => {
      await expectRefused({ url: tlsUrl, tls: { ca: authority.certificate } }, /expired/i)
    })
  })

  test('a server that requires client certificates gets one', async () => {
    const server = await authority.issue()
    const { certificate: cert, key } = await authority.issue({ client: 'gate' })
    const stranger = await other.issue({ client: 'gate' })
    const ca = authority.certificate
    await served({ tls: { server, clientAuthority: ca } }, async ({ tlsUrl }) => {
      await expectSameKey([{ url: tlsUrl, tls: { ca, cert, key } }])
      for (const tls of [{ ca }, { ca, cert: stranger.certificate, key: stranger.key }]) {
        await expectRefused({ url: tlsUrl, tls }, /./)
      }
    })
  })
})
