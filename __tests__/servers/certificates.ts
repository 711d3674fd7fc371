import { generateKeyPairSync, sign } from 'node:crypto'
import { generate } from 'selfsigned'

/** A certificate with its private key, as PEM texts. */
export interface CertifiedKey {
  readonly certificate: string
  readonly key: string
  /** The certificate of the authority that issued it. */
  readonly authority: string
}

/** The contents of a certificate. */
export interface CertificateOptions {
  /** The names and addresses of its server. Default: this machine's. With none, `localhost` is its common name alone. */
  readonly hosts?: readonly string[]
  /** It was valid until yesterday. */
  readonly isExpired?: boolean
  /** A client certificate, with this name. */
  readonly client?: string
  /** The kind of its key. Default: P-256. */
  readonly keyKind?: keyof typeof KEY_KINDS
}

const KEY_KINDS = {
  'P-256': { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' },
  'P-521': { keyType: 'ec', curve: 'P-521', algorithm: 'sha512' },
  'RSA 1024': { keyType: 'rsa', keySize: 1024, algorithm: 'sha256' },
} as const

const DAY_MS = 86_400_000

/** The names and addresses of this machine in tests. */
const THIS_MACHINE = ['localhost', '127.0.0.1', '::1']

/** A certificate authority for one test: no key is ever stored in the repository. */
export class CertificateAuthority {
  readonly #key: string

  private constructor(
    /** Its own certificate, as PEM text. */
    readonly certificate: string,
    key: string,
  ) {
    this.#key = key
  }

  /** Makes an authority with a new key. */
  static async make(
    name = 'tollgate tests',
    keyKind: CertificateOptions['keyKind'] = 'P-256',
  ): Promise<CertificateAuthority> {
    const made = await generate([{ name: 'commonName', value: name }], {
      ...validity(false),
      ...KEY_KINDS[keyKind],
      extensions: [
        { name: 'basicConstraints', cA: true, critical: true },
        { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
      ],
    })
    return new CertificateAuthority(made.cert, made.private)
  }

  /** Issues a certificate for a new key: for a server, unless a client is named. */
  async issue(options: CertificateOptions = {}): Promise<CertifiedKey> {
    const { client, hosts = THIS_MACHINE, isExpired = false, keyKind = 'P-256' } = options
    const name = client ?? hosts[0] ?? 'localhost'
    const made = await generate([{ name: 'commonName', value: name }], {
      ...validity(isExpired),
      ...KEY_KINDS[keyKind],
      ca: { key: this.#key, cert: this.certificate },
      extensions: [
        { name: 'basicConstraints', cA: false, critical: true },
        { name: 'keyUsage', digitalSignature: true, critical: true },
        { name: 'extKeyUsage', ...(client === undefined ? { serverAuth: true } : { clientAuth: true }) },
        ...(client === undefined && hosts.length > 0
          ? [{ name: 'subjectAltName' as const, altNames: alternativeNames(hosts) }]
          : []),
      ],
    })
    return { certificate: made.cert, key: made.private, authority: this.certificate }
  }
}

/** A certificate with the extension CA:TRUE that is signed by its own key, as many tools make them for one server. */
export async function selfSigned({
  hosts = THIS_MACHINE,
  isExpired = false,
  keyKind = 'P-256',
}: CertificateOptions = {}): Promise<CertifiedKey> {
  const made = await generate([{ name: 'commonName', value: 'localhost' }], {
    ...validity(isExpired),
    ...KEY_KINDS[keyKind],
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      ...(hosts.length === 0 ? [] : [{ name: 'subjectAltName' as const, altNames: alternativeNames(hosts) }]),
    ],
  })
  return { certificate: made.cert, key: made.private, authority: made.cert }
}

/** A certificate of X.509 version 1 for `localhost`, signed by its own key. It has no extensions. */
export function versionOne(): CertifiedKey {
  return signedByItself('', '')
}

/** A certificate of version 3 for `localhost`, signed by its own key, with a critical certificatePolicies. */
export function withCriticalPolicies(): CertifiedKey {
  // The version 3, and an extension (2.5.29.32) with the policy 1.2.3.4.
  return signedByItself('a003020102', 'a317301530130603551d200101ff04093007300506032a0304')
}

/** @param version,extensions - Parts of the certificate, in hexadecimal. */
function signedByItself(version: string, extensions: string): CertifiedKey {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const element = (tag: number, ...parts: Uint8Array[]) => {
    const content = Buffer.concat(parts)
    const long = content.length < 256 ? [0x81] : [0x82, content.length >> 8]
    const length = [...(content.length < 128 ? [] : long), content.length & 0xff]
    return Buffer.concat([Buffer.from([tag, ...length]), content])
  }
  const sequence = (...parts: Uint8Array[]) => element(0x30, ...parts)
  const time = (date: Date) => element(0x17, Buffer.from(`${date.toISOString().replaceAll(/\D/g, '').slice(2, 14)}Z`))
  const ecdsaWithSha256 = sequence(element(0x06, Buffer.from('2a8648ce3d040302', 'hex')))
  const commonName = sequence(element(0x06, Buffer.from('550403', 'hex')), element(0x0c, Buffer.from('localhost')))
  const name = sequence(element(0x31, commonName))
  const { notBeforeDate, notAfterDate } = validity(false)
  const content = sequence(
    Buffer.from(version, 'hex'),
    element(0x02, Buffer.from([1])),
    ecdsaWithSha256,
    name,
    sequence(time(notBeforeDate), time(notAfterDate)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    Buffer.from(extensions, 'hex'),
  )
  const signature = element(0x03, Buffer.from([0]), sign('sha256', content, privateKey))
  const lines = sequence(content, ecdsaWithSha256, signature)
    .toString('base64')
    .replaceAll(/.{64}(?=.)/g, '$&\n')
  const certificate = `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`
  return { certificate, key: `${privateKey.export({ type: 'pkcs8', format: 'pem' })}`, authority: certificate }
}

function alternativeNames(hosts: readonly string[]) {
  return hosts.map((host) =>
    /^[\d.]+$|:/.test(host) ? ({ type: 7, ip: host } as const) : ({ type: 2, value: host } as const),
  )
}

function validity(isExpired: boolean): { notBeforeDate: Date; notAfterDate: Date } {
  const now = Date.now()
  const [from, to] = isExpired ? [-2, -1] : [-1, 30]
  return { notBeforeDate: new Date(now + from * DAY_MS), notAfterDate: new Date(now + to * DAY_MS) }
}
