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
  /** The names and addresses of its server. Default: this machine's. */
  readonly hosts?: readonly string[]
  /** It was valid until yesterday. */
  readonly isExpired?: boolean
  /** A client certificate, with this name. */
  readonly client?: string
}

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
  static async make(name = 'tollgate tests'): Promise<CertificateAuthority> {
    const made = await generate([{ name: 'commonName', value: name }], {
      ...validity(false),
      keyType: 'ec',
      algorithm: 'sha256',
      extensions: [
        { name: 'basicConstraints', cA: true, critical: true },
        { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
      ],
    })
    return new CertificateAuthority(made.cert, made.private)
  }

  /** Issues a certificate for a new key: for a server, unless a client is named. */
  async issue(options: CertificateOptions = {}): Promise<CertifiedKey> {
    const { client, hosts = THIS_MACHINE, isExpired = false } = options
    const name = client ?? hosts[0] ?? ''
    const names = hosts.map((host) =>
      /^[\d.]+$|:/.test(host) ? ({ type: 7, ip: host } as const) : ({ type: 2, value: host } as const),
    )
    const made = await generate([{ name: 'commonName', value: name }], {
      ...validity(isExpired),
      keyType: 'ec',
      algorithm: 'sha256',
      ca: { key: this.#key, cert: this.certificate },
      extensions: [
        { name: 'basicConstraints', cA: false, critical: true },
        { name: 'keyUsage', digitalSignature: true, critical: true },
        { name: 'extKeyUsage', ...(client === undefined ? { serverAuth: true } : { clientAuth: true }) },
        ...(client === undefined ? [{ name: 'subjectAltName' as const, altNames: names }] : []),
      ],
    })
    return { certificate: made.cert, key: made.private, authority: this.certificate }
  }
}

function validity(isExpired: boolean): { notBeforeDate: Date; notAfterDate: Date } {
  const now = Date.now()
  const [from, to] = isExpired ? [-2, -1] : [-1, 30]
  return { notBeforeDate: new Date(now + from * DAY_MS), notAfterDate: new Date(now + to * DAY_MS) }
}
