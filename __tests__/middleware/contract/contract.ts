/** What every adapter does, as a table: each behaviour is tested in each adapter, or has a reason why not. */
import type { Decision } from '../../../ts/index.js'
import { fixedWindow, MemoryStore, RateLimiter } from '../../../ts/index.js'
import type { RequestEnd } from '../../../ts/middleware/shared/options.js'
import { FakeClock } from '../../clock.js'
import { type Exchange, FRAMEWORKS, type Framework, HTTP2_FRAMEWORKS, type Setup } from '../frameworks.js'
import { Client, pending } from '../requests.js'
import { PROTOCOLS } from './protocols.js'

export const ADAPTERS: readonly Framework[] = [...FRAMEWORKS, ...HTTP2_FRAMEWORKS, ...PROTOCOLS]

/** The reason why a behaviour does not apply over HTTP/2. */
export const ONLY_HTTP_1 = Object.fromEntries(HTTP2_FRAMEWORKS.map(({ name }) => [name, 'HTTP/2 has streams']))

/** A behaviour of adapters. */
export interface Behaviour {
  /** The reasons why it does not apply to adapters, by the starts of their names. */
  readonly except?: { readonly [name: string]: string }
  readonly test: (adapter: Framework) => Promise<void>
}

/** Tests each behaviour in each adapter. */
export function contract(behaviours: { readonly [title: string]: Behaviour }): void {
  test('the table names adapters', () => {
    const named = Object.values(behaviours).flatMap(({ except = {} }) => Object.keys(except))
    expect(named.filter((start) => !ADAPTERS.some(({ name }) => name.startsWith(start)))).toEqual([])
  })
  describe.each(ADAPTERS)('$name', (adapter) => {
    for (const [title, behaviour] of Object.entries(behaviours)) {
      const { except = {} } = behaviour
      const name = Object.keys(except).find((start) => adapter.name.startsWith(start))
      if (name === undefined) {
        test(title, () => behaviour.test(adapter))
      } else {
        test(`${title}: does not apply: ${except[name]}`, () => {})
      }
    }
  })
}

const open: { close(): unknown }[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()))
})

/** A limiter of 10 an hour, or of another limit, whose clock stands still. */
export function limiterOf(limit = 10) {
  const store = new MemoryStore({ clock: new FakeClock().read })
  return new RateLimiter(fixedWindow({ limit, window: '1h' }), { store })
}

/** A running app, its client, and what has happened. */
export interface Running {
  readonly client: Client
  /** The paths of the requests that have reached the route. */
  readonly routed: string[]
  readonly exchanges: Exchange[]
  /** A request to `/slow` has reached the route. */
  readonly entered: Promise<void>
  /** Lets such requests end. */
  release(): void
}

/**
 * Serves an app with `/ok`, `/missing`, `/thrown` and `/slow`. A request counts for its `x-user`, or
 * `ann`.
 */
export async function run(adapter: Framework, options: object, setup: Partial<Setup> = {}): Promise<Running> {
  const [entered, released] = [pending(), pending()]
  const routed: string[] = []
  const exchanges: Exchange[] = []
  const key = (...args: unknown[]) => adapter.header(args, 'x-user') ?? 'ann'
  const served = await adapter.serve({
    options: { key, ...options },
    route: async (path: string, decision: Decision | undefined) => {
      routed.push(path)
      if (path === '/slow') {
        entered.resolve()
        await released.promise
      }
      if (path === '/thrown') {
        throw new Error('the route failed')
      }
      return { status: path === '/missing' ? 404 : 200, body: `${decision?.status} ${decision?.remaining}` }
    },
    ...setup,
    onRequest: (exchange) => {
      exchanges.push(exchange)
      setup.onRequest?.(exchange)
    },
  })
  const client = new Client(adapter, served)
  open.push(client, served)
  return { client, routed, exchanges, entered: entered.promise, release: released.resolve }
}

/** Collects the ends of requests, and refunds those that a function chooses. */
export function endsOf(isRefunded: (end: RequestEnd) => boolean = () => false) {
  const ends: RequestEnd[] = []
  const refundWhen = (...args: unknown[]) => {
    ends.push(args.at(-1) as RequestEnd)
    return isRefunded(args.at(-1) as RequestEnd)
  }
  return { ends, refundWhen }
}
