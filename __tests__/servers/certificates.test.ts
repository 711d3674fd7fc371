/** The test certificates have their configured contents, for a real server and for Node. */
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { type ConnectionOptions, connect } from 'node:tls'
import { CertificateAuthority, type CertificateOptions } from './certificates.js'
import { RedisServer } from './redis-server.js'

let authority: CertificateAuthority

beforeAll(async () => {
  authority = await CertificateAuthority.make()
})

/** A TLS server's answer to PING, or the connection's error. */
async function ping(server: RedisServer, options: ConnectionOptions): Promise<string> {
  const socket = connect({ port: server.port, host: 'localhost', ...options })
  try {
    await once(socket, 'secureConnect')
    socket.write('PING\r\n')
    const [reply] = await once(socket, 'data')
    return `${reply}`
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? `${error}`
  } finally {
    socket.destroy()
  }
}

test.each<[string, CertificateOptions, string]>([
  ['a server', {}, '+PONG\r\n'],
  ['a server that has expired', { isExpired: true }, 'CERT_HAS_EXPIRED'],
  ['another host', { hosts: ['redis.example'] }, 'ERR_TLS_CERT_ALTNAME_INVALID'],
])('a certificate of %s', async (_, options, answer) => {
  await using server = await RedisServer.start({ tls: { server: await authority.issue(options) } })
  expect(await ping(server, { ca: authority.certificate })).toBe(answer)
})

test('a server replaces its certificate while it runs', async () => {
  const [good, bad] = [await authority.issue(), await authority.issue({ isExpired: true })]
  await using server = await RedisServer.start({ tls: { server: good } })
  const { pid } = server
  await server.present(bad)
  expect(await ping(server, { ca: authority.certificate })).toBe('CERT_HAS_EXPIRED')
  await server.present(good)
  expect(await ping(server, { ca: authority.certificate })).toBe('+PONG\r\n')
  expect(server.pid).toBe(pid)
})

test('an authority unknown to the client', async () => {
  const other = await CertificateAuthority.make()
  await using server = await RedisServer.start({ tls: { server: await other.issue() } })
  expect(await ping(server, { ca: authority.certificate })).toMatch(/UNABLE_TO_VERIFY|SELF_SIGNED|SIGNATURE_FAILURE/)
  expect(await ping(server, { ca: other.certificate })).toBe('+PONG\r\n')
})

test('a server that requires client certificates', async () => {
  const clients = await CertificateAuthority.make('clients')
  const tls = { server: await authority.issue(), clientAuthority: clients.certificate }
  await using server = await RedisServer.start({ tls })
  const { certificate: cert, key } = await clients.issue({ client: 'me' })
  const ca = authority.certificate
  expect(await ping(server, { ca, cert, key })).toBe('+PONG\r\n')
  expect(await ping(server, { ca })).not.toMatch('PONG')
  // Without TLS the port serves nobody, but the tests' own commands work.
  expect(await server.command('PING')).toBe('PONG')
})

test('certificates name their issuer, and are not authorities', async () => {
  const { certificate } = await authority.issue({ hosts: ['one.example', '::1'] })
  const [read, issuer] = [certificate, authority.certificate].map((text) => new X509Certificate(text)) as [
    X509Certificate,
    X509Certificate,
  ]
  expect([read.checkIssued(issuer), read.verify(issuer.publicKey), read.ca, issuer.ca]).toEqual([
    true,
    true,
    false,
    true,
  ])
  expect(read.checkHost('one.example')).toBe('one.example')
  expect(read.checkIP('::1')).toBe('::1')
})
