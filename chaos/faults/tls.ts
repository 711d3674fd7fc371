/** The server shows a certificate that proves nothing: nothing is ever told to it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CertificateAuthority, type CertifiedKey } from '../../__tests__/servers/certificates.js'
import { RedisServer } from '../../__tests__/servers/redis-server.js'
import type { Fault, Pace, Row } from '../fault.js'
import { onStore } from '../scene.js'
import { saysWhy } from './access.js'

const PASSWORD = 'a-secret-that-no-impostor-hears'

/** Has the server show a bad certificate for a while, to those who connect anew: all of them. */
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

/** Ends all connections but the one that asks. */
async function cut(server: RedisServer): Promise<void> {
  await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
}

/** How often somebody has introduced itself to the server: by HELLO, as our client does, and nobody else here. */
async function logins(server: RedisServer): Promise<number> {
  const told = (await server.info('cmdstat_hello')) ?? ''
  return Number(/calls=(\d+)/.exec(told)?.[1] ?? 0)
}

const unknownAuthority: Fault = {
  name: 'tls-unknown-ca',
  title: 'TLS: the certificate becomes one of an authority that nobody trusts, and the right one again',
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
  title: "TLS: the certificate becomes another host's, and the right one again",
  isLong: true,
  run: (pace) => presenting(pace, /not valid for name/i, (own) => own.issue({ hosts: ['redis.example'] })),
}

export const TLS_FAULTS: readonly Fault[] = [unknownAuthority, expired, wrongHost]
