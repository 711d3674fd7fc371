/** What browsers, Deno and workerd are given, run where nothing of Node's is. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Context, createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'

const ROOT = join(__dirname, '..', '..')

/** What all of these platforms have, of what is used. */
const PLATFORM = {
  atob,
  performance,
  queueMicrotask,
  setTimeout,
  clearTimeout,
  AbortController,
  TextDecoder,
  TextEncoder,
}

/** The program of a user that has a bundle, as one script; what it imports beside that is in `imported`. */
async function bundled(name: string): Promise<{ text: string; imported: readonly string[] }> {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(ROOT, 'dist', 'wasm', `${name}.mjs`)],
    bundle: true,
    write: false,
    metafile: true,
    format: 'iife',
    globalName: 'tollgate',
    // Modules of Node cannot be resolved for a browser: to load one would fail here.
    platform: 'browser',
    plugins: [
      {
        name: 'compiled',
        setup(build) {
          build.onResolve({ filter: /\.wasm$/ }, ({ path }) => ({ path, namespace: 'compiled' }))
          build.onLoad({ filter: /.*/, namespace: 'compiled' }, () => ({ contents: 'export default compiled' }))
        },
      },
    ],
  })
  const imported = Object.keys(metafile.inputs).filter((input) => !input.endsWith(`${name}.mjs`))
  return { text: (outputFiles[0] as { text: string }).text, imported }
}

/** What a program answers that uses what has been loaded. */
async function told(context: Context): Promise<unknown> {
  const answer = runInContext(
    `(async () => {
      const { calendarWindow, gcra, MemoryStore, RateLimiter, TollgateError } = tollgate
      const store = new MemoryStore({ clock: () => 1_700_000_000_000 })
      const limiter = new RateLimiter(gcra({ limit: 10, period: '1s', burst: 2 }), { store })
      const answers = [limiter.takeSync('ключ'), await limiter.take('ключ'), await limiter.take('ключ')]
      const berlin = calendarWindow({ limit: 1, every: 'day', timeZone: 'Europe/Berlin' })
      const day = new RateLimiter(berlin, { store, prefix: 'day' })
      const { resetAfterMs } = day.takeSync('a')
      const held = await limiter.reserve('b', 1)
      const { settled } = await held.commit()
      const pace = new RateLimiter(gcra({ limit: 1_000, period: '1s', burst: 1 }))
      await pace.wait('a')
      const { waitedMs } = await pace.wait('a')
      const error = await limiter.take('').catch((reason) => TollgateError.is(reason) && reason.code)
      return JSON.stringify([answers.map(({ status }) => status), resetAfterMs, settled, waitedMs > 0, error])
    })()`,
    context,
  )
  return JSON.parse(await answer)
}

// At that time it is 23:13:20 in Berlin.
const TOLD = [['allowed', 'allowed-last', 'refused'], 2_800_000, true, true, 'INVALID_KEY']

test('browsers and Deno need nothing but the bundle', async () => {
  const { text, imported } = await bundled('web')
  expect(imported).toEqual([])
  const context = createContext({ ...PLATFORM, crypto })
  runInContext(text, context)
  expect(await told(context)).toEqual(TOLD)
})

describe('on workerd', () => {
  /** There modules are compiled before, and there are no random numbers until a request comes. */
  async function worker() {
    const handling = { isRequest: false }
    const getRandomValues = (array: Uint8Array<ArrayBuffer>) => {
      if (!handling.isRequest) {
        throw new Error('Disallowed operation called within global scope')
      }
      return crypto.getRandomValues(array)
    }
    const Module = () => {
      throw new Error('Wasm code generation disallowed by embedder')
    }
    Object.defineProperty(Module, Symbol.hasInstance, {
      value: (value: unknown) => value instanceof WebAssembly.Module,
    })
    const { Instance } = WebAssembly
    const compiled = await WebAssembly.compile(readFileSync(join(ROOT, 'wasm', 'tollgate.wasm')))
    const { text, imported } = await bundled('workerd')
    expect(imported).toEqual(['compiled:../../wasm/tollgate.wasm'])
    const globals = { ...PLATFORM, crypto: { getRandomValues }, WebAssembly: { Instance, Module }, compiled }
    const context = createContext(globals, { codeGeneration: { strings: false, wasm: false } })
    runInContext(text, context)
    return { context, handling }
  }

  test('the engine is imported, and nothing is compiled', async () => {
    const { context, handling } = await worker()
    handling.isRequest = true
    expect(await told(context)).toEqual(TOLD)
  })

  test('limiters can be made while a Worker is loaded, and asked when a request comes', async () => {
    const { context, handling } = await worker()
    const early = runInContext(
      `const limiter = new tollgate.RateLimiter({
        burst: tollgate.gcra({ limit: 1, period: '1m' }),
        daily: tollgate.calendarWindow({ limit: 5, every: 'day' }),
      })
      limiter.take('a').catch(({ code, message }) => JSON.stringify({ code, message }))`,
      context,
    )
    expect(JSON.parse(await early)).toEqual({
      code: 'STORE_ERROR',
      message: 'the platform gives no random numbers now: ask while a request is handled',
    })
    handling.isRequest = true
    const { status } = await runInContext("limiter.take('a')", context)
    expect(status).toBe('allowed-last')
  })
})
