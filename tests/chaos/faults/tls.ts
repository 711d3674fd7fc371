/** The server has an invalid certificate: the store must not send anything to it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CertificateAuthority, type CertifiedKey } from '../../../__tests__/servers/certificates.js'
import { RedisServer } from '../../../__tests__/servers/redis-server.js'
import type { Fault, Pace, Row } from '../fault.js'
import { onStore } from '../scene.js'
import { saysWhy } from './access.js'

const PASSWORD = 'a-secret-that-no-impostor-hears'

/** Makes the server use a bad certificate for a while, and closes all connections. */
async function presenting(
  pace: Pace,
  why: RegExp,
  bad: (own: CertificateAuthority) => Promise<CertifiedKey>,
): Promise<Row> {
  const authority = await CertificateAuthority.make()
  const good = await authority.issue()
  await using server = await RedisServer.start({
    tls: { server: good },
    config: [`requirepass ${PASSWORD}`],
    credentials: { password: PASSWORD },
  })
  const setting = {
    store: () => ({ url: server.tlsUrl, password: PASSWORD, tls: { ca: authority.certificate } }),
    promised: { errors: ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] as const, mustSee: ['STORE_UNAVAILABLE'] as const },
  }
  return await onStore(pace, server, setting, async (scene) => {
    await server.present(await bad(authority))
    await cut(server)
    const before = await logins(server)
    await sleep(pace.faultMs)
    await saysWhy(scene, why)
    scene.expect((await logins(server)) === before, 'nobody says a password to it')
    await server.present(good)
    scene.healthy()
  })
}

/** Closes all connections except the one that sends the command. */
async function cut(server: RedisServer): Promise<void> {
  await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
}

/** The number of HELLO commands that the server has received. Here only the store sends HELLO. */
async function logins(server: RedisServer): Promise<number> {
  const told = (await server.info('cmdstat_hello')) ?? ''
  return Number(/calls=(\d+)/.exec(told)?.[1] ?? 0)
}

const unknownAuthority: Fault = {
  name: 'tls-unknown-ca',
  title: 'TLS: the certificate is from an untrusted authority, and later the right one again',
  isLong: true,
  run: (pace) =>
    presenting(pace, /certificate|UnknownIssuer/i, async () => (await CertificateAuthority.make('another')).issue()),
}

const expired: Fault = {
  name: 'tls-expired',
  title: 'TLS: the certificate expires, and is renewed',
  run: (pace) => presenting(pace, /expired/i, (own) => own.issue({ isExpired: true })),
}

const wrongHost: Fault = {
  name: 'tls-wrong-host',
  title: 'TLS: the certificate is for another host, and later the right one again',
  isLong: true,
  run: (pace) => presenting(pace, /not valid for name/i, (own) => own.issue({ hosts: ['redis.example'] })),
}

export const TLS_FAULTS: readonly Fault[] = [unknownAuthority, expired, wrongHost]
