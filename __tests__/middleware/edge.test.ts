/**
 * The middlewares for the edge, bundled without Node's modules, and run in an environment without
 * Node.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'

const ROOT = join(__dirname, '..', '..')

/** A Worker as it is deployed: one script. */
async function bundled(name: string): Promise<{ inputs: string[]; text: string }> {
  const result = await build({
    stdin: { contents: `export * from './ts/middleware/${name}.js'`, resolveDir: ROOT, loader: 'ts' },
    bundle: true,
    write: false,
    metafile: true,
    format: 'iife',
    globalName: 'middleware',
    // Modules of Node cannot be resolved for a browser: loading one would fail here.
    platform: 'browser',
    target: 'es2022',
  })
  return { inputs: Object.keys(result.metafile.inputs), text: (result.outputFiles[0] as { text: string }).text }
}

test.each(['hono', 'fetch'])('%s loads neither the addon, nor a store, nor its framework', async (name) => {
  const { inputs } = await bundled(name)
  const own = inputs.filter((input) => input !== '<stdin>')
  expect(own).not.toEqual([])
  const small = [
    'api/call-id',
    'api/error',
    'api/metered-units',
    'backends/units',
    'input/duration',
    'input/keys',
    'input/options',
    'input/suggestion',
    'input/utf8',
    'platform/return-override',
    'platform/warning',
  ]
  const expected = (input: string) =>
    /^ts\/(middleware\/|middleware\/shared\/|policies\/)[a-z-]+\.ts$/.test(input) ||
    small.some((name) => input === `ts/${name}.ts`)
  expect(own.filter((input) => !expected(input))).toEqual([])
})

test('it works without process, Buffer and modules', async () => {
  const { text } = await bundled('fetch')
  const globals = { Request, Response, Headers, console, AbortController }
  const context = createContext(globals)
  runInContext(text, context)
  const answer = runInContext(
    `(async () => {
      let left = 1
      const limiter = {
        policies: { default: { algorithm: 'fixedWindow', limit: 1, window: 60000 } },
        refund: async () => 0,
        take: async (key) => {
          if (key !== '2001:db8:0:0:0:0:0:0/56') throw new Error(key)
          const allowed = left-- > 0
          const retryAfterMs = allowed ? 0 : 1500
          const numbers = { limit: 1, remaining: 0, retryAfterMs, resetAfterMs: 1500 }
          return { allowed, status: allowed ? 'allowed' : 'refused', ...numbers, policies: { default: numbers }, source: 'store' }
        },
      }
      const { withRateLimit, ipKey } = middleware
      const handler = withRateLimit(() => new Response('ok'), {
        limiter,
        key: (request) => ipKey(request.headers.get('cf-connecting-ip')),
      })
      const ask = () => handler(new Request('http://here/', { headers: { 'cf-connecting-ip': '2001:db8::1' } }))
      const answers = [await ask(), await ask()]
      return JSON.stringify(answers.map(({ status, headers }) => [status, headers.get('RateLimit'), headers.get('Retry-After')]))
    })()`,
    context,
  )
  expect(JSON.parse(await answer)).toEqual([
    [200, '"default";r=0;t=2', null],
    [429, '"default";r=0;t=2', '2'],
  ])
})

test('long keys count by a digest of Web Crypto', async () => {
  const { text } = await bundled('fetch')
  const { crypto, TextEncoder } = globalThis
  const context = createContext({ Request, Response, crypto, TextEncoder })
  runInContext(text, context)
  const answer = runInContext(
    `(async () => {
      const keys = []
      const numbers = { limit: 1, remaining: 0, retryAfterMs: 0, resetAfterMs: 1500 }
      const limiter = {
        policies: { default: { algorithm: 'fixedWindow', limit: 1, window: 60000 } },
        refund: async () => 0,
        take: async (key) => {
          keys.push(key)
          return { allowed: true, status: 'allowed', ...numbers, policies: { default: numbers }, source: 'store' }
        },
      }
      const handler = middleware.withRateLimit(() => new Response('ok'), { limiter, key: () => 'x'.repeat(2000) })
      const { status } = await handler(new Request('http://here/'))
      return JSON.stringify([status, keys])
    })()`,
    context,
  )
  const digest = createHash('sha256').update('x'.repeat(2_000)).digest('hex')
  expect(JSON.parse(await answer)).toEqual([200, [`long-key:sha256:${digest}`]])
})
