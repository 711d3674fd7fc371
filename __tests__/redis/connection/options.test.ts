/** Invalid options of a Redis store fail immediately, by name, and without printing a secret. */

import { inspect } from 'node:util'
import { parseRedisUrl } from '../../../ts/backends/redis/url.js'
import { gcra, RateLimiter, RedisStore, type TollgateError } from '../../../ts/index.js'
import { failureOf } from '../../failure.js'
import { CertificateAuthority } from '../../servers/certificates.js'

const SECRET = 'hunter2-the-secret'

const LOGIN = { username: 'default', password: 'p4ss' }

/** What a URL means, where it differs from the defaults. */
interface Expected {
  readonly port?: number
  readonly database?: number
  readonly tls?: true
  readonly username?: string
  readonly password?: string
}

function failure(options: unknown): TollgateError {
  const error = failureOf(() => new RedisStore(options as string).close())
  expect(error).toMatchObject({ code: 'INVALID_OPTION', charged: false })
  expect(inspect(error, { depth: 9 })).not.toContain(SECRET)
  return error
}

test.each([
  ['no URL', 'must be a Redis URL'],
  ['', 'must be a Redis URL'],
  ['http://localhost', 'must be a Redis URL'],
  [`redis:/${SECRET}`, 'url must name a host'],
  ['redis://', 'url must name a host'],
  [`redis://u:${SECRET}@localhost:99999`, 'must be a Redis URL'],
  [`redis://u:${SECRET}@localhost/one`, 'url must name the database by its number'],
  [`redis://u:${SECRET}@localhost/1234567`, 'url must name the database by its number'],
  [`redis://u:${SECRET}@localhost/2?db=1`, 'url must name the database once: in its path, or as ?db'],
  [`redis://u:${SECRET}@localhost?db=one`, 'url must name the database by its number'],
  [`redis://u:${SECRET}@localhost?family=5`, 'url must have no query parameter family'],
  [`redis://u:${SECRET}@h?tls=true`, 'url must have no query parameter tls: write rediss://'],
  [`rediss://u:${SECRET}@h?ssl_cert_reqs=none`, 'no query parameter ssl_cert_reqs: certificates are always verified'],
  [`rediss://u:${SECRET}@h?ssl_ca_certs=/a`, 'url must have no query parameter ssl_ca_certs: use the option tls'],
  [`redis://h?password=${SECRET}`, 'no query parameter password: use the options username and password'],
  ['redis://h?connect_timeout=5', 'url must have no query parameter connect_timeout: use the option connectTimeout'],
  ['redis://h?socket_timeout=5', 'url must have no query parameter socket_timeout: use the option commandTimeout'],
  ['redis://h?pool_size=5', 'url must have no query parameter pool_size: leave it out'],
  ['redis://h?database=2', 'no query parameter database: use the option database, or the parameter db'],
  ['rediss://h?rejectUnauthorized=false', 'no query parameter rejectUnauthorized: certificates are always verified'],
  ['rediss://h?skip_verify=true', 'no query parameter skip_verify: certificates are always verified'],
  ['redis://h?health_check_interval=30', 'no query parameter health_check_interval: use the option idleCheck'],
  ['redis://h?max_pending=5', 'no query parameter max_pending: use the option maxPending'],
  ['rediss://h?servername=a', 'no query parameter servername: use the option tls'],
  [`redis://h?${SECRET}*=1`, 'url must have no such query parameter'],
  [`redis://u:${SECRET}#@localhost`, 'percent-encoded, as encodeURIComponent does: # is %23'],
  [`redis://u:1#${SECRET}@localhost`, 'percent-encoded, as encodeURIComponent does: # is %23'],
  [`redis://u:${SECRET}/x@localhost`, 'percent-encoded, as encodeURIComponent does'],
  [`redis://u:${SECRET}?x@localhost`, 'percent-encoded, as encodeURIComponent does'],
  [`rediss://u:${SECRET}@localhost/#insecure`, 'url must have no fragment'],
  [
    `a.redis.cache.windows.net:6380,password=${SECRET}=,ssl=True,abortConnect=False`,
    'instead of this connection string use the options host, port, password and tls: true',
  ],
  ['redis-sentinel://a:26379/main', 'use the option sentinel'],
  ['redis+cluster://a,b', 'use the option cluster'],
  ['https://a.upstash.io', "over HTTP, 'tollgate/wasm' accepts a client"],
  [`redis://u:%zz${SECRET}@localhost`, 'url must be percent-encoded'],
  [`redis://${SECRET}@localhost`, 'username needs a password'],
  ['redis+unix://', 'url must name a path'],
  ['redis+unix:///', 'url must name a path'],
  ['redis+unix:///a.sock?db=x', 'url must name the database by its number'],
  [`redis+unix:///a.sock?password=${SECRET}`, 'no query parameter password: use the parameters user and pass'],
  ['unix:///a.sock?database=1', 'no query parameter database: use the option database, or the parameter db'],
  ['unix:///a.sock?db=1&timeout=5', 'no query parameter timeout: use the option commandTimeout'],
  ['unix:///a.sock?ssl=true', 'no query parameter ssl: a socket has no TLS: leave it out'],
  [`unix:///a.sock?${SECRET}*=1`, 'url must have no such query parameter'],
])('the URL %p', (url, rule) => {
  expect(failure(url).message).toContain(rule)
  expect(failure({ url }).message).toContain(rule)
})

/** URLs as services print them, with the server and the login that they mean. */
test.each([
  ['ElastiCache', 'redis://main.abc.ng.0001.euw1.cache.amazonaws.com:6379', {}],
  ['ElastiCache Serverless', 'rediss://c-abc.serverless.euw1.cache.amazonaws.com:6379', { tls: true }],
  ['Heroku', 'rediss://:p4ss@ec2-1-2-3-4.compute-1.amazonaws.com:12345', { password: 'p4ss', port: 12_345, tls: true }],
  ['Railway', 'redis://default:p4ss@redis.railway.internal:6379?family=0', LOGIN],
  ['Fly', 'redis://default:p4ss@my-redis.internal:6379?family=6', LOGIN],
  ['Render', 'redis://red-abc:6379', {}],
  ['Upstash', 'rediss://default:p4ss@eu1-kind-cat-1.upstash.io:6379', { ...LOGIN, tls: true }],
  ['Aiven for Valkey', 'valkeys://default:p4ss@v-p.a.aivencloud.com:12345', { ...LOGIN, port: 12_345, tls: true }],
  [
    'DigitalOcean',
    'rediss://default:p4ss@db.b.db.ondigitalocean.com:25061/1',
    { ...LOGIN, port: 25_061, database: 1, tls: true },
  ],
  [
    'Redis Cloud',
    'redis://default:p4ss@redis-1.c1.eu-west-1-1.ec2.cloud.redislabs.com:12345/',
    { ...LOGIN, port: 12_345 },
  ],
  ['a Valkey URL', 'valkey://localhost', {}],
  ['a client of Python', 'redis://localhost?db=3&protocol=3', { database: 3 }],
  ['Celery', 'rediss://localhost?ssl_cert_reqs=required', { tls: true }],
  ['an IPv6 address', 'redis://[::1]:6380?family=6', { port: 6_380 }],
] as const)('the URL of %s', (_, url, { port = 6379, tls, database, ...login }: Expected) => {
  const { address, ...rest } = parseRedisUrl('url', url)
  expect(address).toEqual({ host: new URL(url).hostname.replaceAll(/[[\]]/g, ''), port })
  expect(rest).toEqual({ ...login, ...(tls && { tls }), ...(database === undefined ? {} : { database }) })
})

test('the URL of a socket with parameters of other clients', () => {
  expect(parseRedisUrl('url', 'redis+unix:///run/r.sock?db=2&user=u&pass=a%26b&protocol=3&family=0')).toEqual({
    address: { host: '', port: 0, path: '/run/r.sock' },
    ...{ username: 'u', password: 'a&b', database: 2 },
  })
})

describe('a URL followed by options', () => {
  const made = (...args: unknown[]) => failureOf(() => (Reflect.construct(RedisStore, args) as RedisStore).close())

  test('applies the options', async () => {
    await using store = new RedisStore('redis://127.0.0.1:1', { commandTimeout: 50, maxPending: 1 })
    const limiter = new RateLimiter(gcra({ limit: 1, period: '1s' }), { store, prefix: 'second' })
    const outcomes = await Promise.allSettled([limiter.take('a'), limiter.take('a')])
    expect(outcomes).toMatchObject([{ reason: { code: 'STORE_UNAVAILABLE' } }, { reason: { code: 'OVERLOADED' } }])
  })

  test.each([
    [['redis://a', { hots: 'b' }], 'RedisStore has no option "hots"'],
    [['redis://a', { host: 'b' }], 'got url and host'],
    [['redis://a', { url: 'redis://b' }], 'RedisStore has its URL as the first argument: omit the option url'],
    [
      ['redis://a', 5],
      'RedisStore takes a URL or an object of options, got a port: write new RedisStore({ host, port })',
    ],
    [
      ['redis://a', {}, {}],
      'RedisStore takes a URL and an object of options, got 3 arguments: put all options in one object',
    ],
    [
      [{ host: 'a' }, {}],
      'RedisStore takes nothing after an object of options, got 2 arguments: put all options in one object',
    ],
  ])('%j is refused', (args, rule) => {
    const { code, message } = made(...args)
    expect(code).toBe('INVALID_OPTION')
    expect(message).toContain(rule)
  })
})

test.each([
  [undefined, 'RedisStore takes an object of options'],
  [{}, 'RedisStore needs exactly one of url, host, path, sentinel, cluster, got none'],
  [{ url: 'redis://a', host: 'b' }, 'got url and host'],
  [{ port: 5, path: '/a' }, 'port requires host'],
  [{ host: '' }, 'host must be a non-empty string'],
  [{ host: 5 }, 'host must be a non-empty string'],
  [{ host: 'localhost:6379' }, 'host must not contain a port: use the option port'],
  [{ host: 'a', port: 0 }, 'port must be a whole number from 1 to 65535, got 0'],
  [{ host: 'a', port: '6379' }, 'port must be a whole number'],
  [{ path: 5 }, 'path must be a non-empty string'],
  [{ hots: 'a' }, 'has no option "hots"'],
  [{ host: 'a', database: -1 }, 'database must be a whole number from 0'],
  [{ host: 'a', username: SECRET }, 'username needs a password'],
  [{ host: 'a', password: 5 }, 'password must be a non-empty string'],
  [{ host: 'a', password: '' }, 'password must be a non-empty string'],
  [{ host: 'a', credentials: SECRET.length }, 'credentials must be a function'],
  [{ host: 'a', password: SECRET, credentials: () => {} }, 'credentials cannot be combined with username and password'],
  [{ url: `redis://:${SECRET}@a`, credentials: () => {} }, 'credentials cannot be combined with username and password'],
  [{ host: 'a', tls: 'yes' }, 'tls takes an object of options'],
  [{ host: 'a', tls: { rejectUnauthorized: false } }, 'tls has no option "rejectUnauthorized"'],
  [{ host: 'a', tls: { ca: 5 } }, 'tls.ca must be text in PEM'],
  [{ host: 'a', tls: { ca: SECRET } }, 'ca holds no certificate in PEM'],
  [{ host: 'a', tls: { cert: SECRET } }, 'tls.cert and tls.key must be given together'],
  [{ host: 'a', tls: { cert: SECRET, key: SECRET } }, 'cert holds no certificate in PEM'],
  [{ host: 'a', tls: { serverName: '' } }, 'tls.serverName must be a non-empty string'],
  [{ host: 'a', maxPending: 0 }, 'maxPending must be a whole number from 1'],
  [{ host: 'a', connectTimeout: 1.5 }, 'connectTimeout must be a whole number'],
  [{ host: 'a', commandTimeout: Infinity }, 'commandTimeout must be a whole number'],
  [{ host: 'a', idleCheck: 999 }, 'idleCheck must be a whole number from 1000 to 3600000'],
  [{ host: 'a', idleCheck: '2h' }, 'idleCheck must be a whole number from 1000 to 3600000'],
  [{ cluster: 5 }, 'cluster takes an object of options'],
  [{ cluster: { nodes: [] } }, 'cluster.nodes must be an array of 1 to 1000 addresses'],
  [{ cluster: { nodes: [`redis://:${SECRET}@a`] } }, 'cluster.nodes[0] must be host, host:port'],
  [{ cluster: { nodes: ['a'], tags: 0 } }, 'cluster.tags must be a whole number from 1 to 16384'],
  [{ cluster: { nodes: ['a'] }, database: 1 }, 'database'],
  [{ sentinel: 5 }, 'sentinel takes an object of options'],
  [{ sentinel: { nodes: [], name: 'a' } }, 'sentinel.nodes must be an array of 1 to 1000 addresses'],
  [{ sentinel: { nodes: ['a'] } }, 'sentinel.name must be a non-empty string'],
  [{ sentinel: { nodes: ['a'], name: 'm', username: SECRET } }, 'sentinel.username needs a password'],
  [{ sentinel: { nodes: ['a', `redis://:${SECRET}@b`], name: 'm' } }, 'sentinel.nodes[1] must be host, host:port'],
  [{ sentinel: { nodes: ['a:0'], name: 'm' } }, 'sentinel.nodes[0].port must be a whole number'],
  [{ sentinel: { nodes: [{ host: 'a', prot: 5 }], name: 'm' } }, 'sentinel.nodes[0] has no option "prot"'],
])('the options %p', (options, rule) => {
  expect(failure(options).message).toContain(rule)
})

test('an invalid private key is refused, and not printed', async () => {
  const authority = await CertificateAuthority.make()
  const { certificate } = await authority.issue({ client: 'tests' })
  const broken = `-----BEGIN PRIVATE KEY-----\n${SECRET}\n-----END PRIVATE KEY-----\n`
  expect(failure({ host: 'a', tls: { cert: certificate, key: broken } }).message).toContain('tls: ')
})

test('unknown events and invalid listeners are refused', async () => {
  await using store = new RedisStore({ host: '127.0.0.1', port: 1 })
  const on = (...words: unknown[]) => (store.on as (...words: unknown[]) => unknown).call(store, ...words)
  expect(() => on('error', () => {})).toThrow('event must be one of down, up, warning, got "error"')
  expect(() => on('up', 5)).toThrow('listener must be a function, got 5')
})
