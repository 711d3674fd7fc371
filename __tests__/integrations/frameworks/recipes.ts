/** What the recipe of every framework does, over real HTTP. */
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { blocks } from '../../docs/pages.js'
import { RedisServer } from '../../servers/redis-server.js'
import { type Served, Site } from './site.js'

/** The burst of the limiter of all requests, and the limit of logins, on every page. */
const [BURST, LOGINS] = [20, 5]

export interface Recipe {
  /** The app's folder here, which is also the name of its page. */
  readonly app: string
  readonly build?: readonly [program: string, ...args: string[]]
  readonly server: readonly [program: string, ...args: string[]]
  readonly env?: NodeJS.ProcessEnv
  /** Whether the app reads the client's address from `X-Forwarded-For`. Default: it is that of the connection. */
  readonly isProxied?: boolean
  /** Paths that are not limited. */
  readonly free: readonly string[]
  /** The request that is a login. */
  readonly login: Ask & { readonly status?: number }
  /** The status of `OPTIONS /`. */
  readonly options: number
  /** Whether the framework answers it before the limiter. */
  readonly answersOptions?: boolean
  /** What a refused page shows. */
  readonly refusal: string | RegExp
}

export interface Ask {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** The client's address, in 127.0.0.0/8. */
  readonly from?: string
}

export interface Answer {
  readonly status: number | undefined
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

/** Posts a form, as a browser does. */
export const FORM: Ask = {
  method: 'POST',
  headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html' },
  body: 'name=ann',
}

let redis: RedisServer
let site: Site
let recipe: Recipe
let app: Served
let addresses = 1

/** An address that no other test uses. */
export const newAddress = () => `127.0.0.${++addresses}`

export function serve(env: NodeJS.ProcessEnv = {}): Promise<Served> {
  return site.serve({ REDIS_URL: redis.url, ...recipe.env, ...env }, ...recipe.server)
}

/** Asks the app that serves all tests, or another process. */
export function ask({ from = '127.0.0.1', ...ask }: Ask = {}, { url }: Served = app): Promise<Answer> {
  const { method = 'GET', path = '/', headers = {}, body = '' } = ask
  // A client has written the first address, and the proxy has added the second one.
  const forwarded = { 'x-forwarded-for': recipe.isProxied ? `198.51.100.1, ${from}` : '198.51.100.1' }
  const all = { accept: 'text/html', origin: url, ...forwarded, 'content-length': Buffer.byteLength(body), ...headers }
  return new Promise((resolve, reject) => {
    const sent = request(url + path, { method, headers: all, agent: false, localAddress: from }, async (response) => {
      const { statusCode: status, headers } = response
      text(response).then((body) => resolve({ status, headers, body }), reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** What remains of the limiter of all requests. */
export const remaining = ({ headers }: Answer) =>
  Number(/"(?:pages|requests)";r=(\d+)/.exec(`${headers['ratelimit']}`)?.[1])

const count = (answers: readonly Answer[], status: number) =>
  answers.filter((answer) => answer.status === status).length

/** Builds and serves the app of a recipe, and tests what all recipes promise. */
export function testRecipe(tested: Recipe): void {
  recipe = tested

  beforeAll(async () => {
    // Its clock stands still, so that counts are exact.
    redis = await RedisServer.start({ timeUs: Date.UTC(2026, 5, 1) * 1_000 })
    site = new Site(recipe.app)
    if (recipe.build !== undefined) {
      await site.build(...recipe.build)
    }
    app = await serve()
  })

  afterAll(async () => {
    await site[Symbol.asyncDispose]()
    await redis.stop()
  })

  test('the files of the page are those of the app', () => {
    const files = blocks.flatMap(({ page, code }) => {
      const path = /^\/\/ (\S+\.\w+)$/m.exec(code)?.[1]
      return page === `docs/middleware/${recipe.app}.md` && path !== undefined && code.startsWith('//')
        ? [{ path, code }]
        : []
    })
    expect(files.length).toBeGreaterThan(0)
    for (const { path, code } of files) {
      expect(readFileSync(join(__dirname, recipe.app, path), 'utf8')).toBe(code)
    }
  })

  test('three processes admit a burst once, also when one is killed while it serves', async () => {
    const from = newAddress()
    const [second, victim] = await Promise.all([serve(), serve()])
    const killed = Array.from({ length: 6 }, () =>
      ask({ from }, victim).then(
        (answer) => {
          victim.kill()
          return [answer]
        },
        () => [],
      ),
    )
    const others = Array.from({ length: 40 }, (_, index) => ask({ from }, index % 2 ? second : app))
    const answered = (await Promise.all(killed)).flat()
    const answers = [...answered, ...(await Promise.all(others))]
    await victim.ended
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]))
    expect(count(answers, 200)).toBeLessThanOrEqual(BURST)
    expect(count(answers, 200)).toBeGreaterThanOrEqual(BURST - (killed.length - answered.length))
    for (const { status, headers } of answers) {
      expect(headers['ratelimit-policy']).toMatch(/^"(pages|requests)";q=20;w=12$/)
      expect(headers['ratelimit']).toMatch(/^"(pages|requests)";r=\d+;t=\d+$/)
      expect(headers['retry-after']).toBe(status === 429 ? '1' : undefined)
    }
    expect((await ask({ from }, second)).status).toBe(429)
  })

  test('each client has its own count, and cannot choose its address', async () => {
    const [ann, bob] = [newAddress(), newAddress()]
    const answers = await Promise.all(Array.from({ length: BURST + 5 }, () => ask({ from: ann })))
    expect(count(answers, 200)).toBe(BURST)
    expect(count(answers, 429)).toBe(5)
    expect(answers.find(({ status }) => status === 429)?.body).toMatch(recipe.refusal)
    expect(remaining(await ask({ from: bob }))).toBe(BURST - 1)
    for (const path of recipe.free) {
      const { status, headers } = await ask({ path, from: ann })
      expect([path, status, headers['ratelimit']]).toEqual([path, 200, undefined])
    }
  })

  test('HEAD is counted, and OPTIONS unless the framework answers it', async () => {
    const from = newAddress()
    const head = await ask({ from, method: 'HEAD' })
    expect([head.status, remaining(head), head.body]).toEqual([200, BURST - 1, ''])
    const options = await ask({ from, method: 'OPTIONS' })
    expect(options.status).toBe(recipe.options)
    expect(remaining(await ask({ from }))).toBe(BURST - (recipe.answersOptions ? 2 : 3))
  })

  test('a login has a limit of its own', async () => {
    const from = newAddress()
    for (let left = LOGINS - 1; left >= 0; left--) {
      const { status, headers } = await ask({ from, ...recipe.login })
      expect([status, headers['ratelimit']]).toEqual([
        recipe.login.status ?? 200,
        expect.stringMatching(`"(logins|actions)";r=${left};t=3600`),
      ])
    }
    const { status, headers } = await ask({ from, ...recipe.login })
    expect([status, headers['retry-after']]).toEqual([429, '3600'])
    expect((await ask({ from, path: recipe.login.path ?? '/' })).status).not.toBe(429)
  })
}
