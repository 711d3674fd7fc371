/** The bundles for browsers, Deno and workerd, run in environments without Node. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Context, runInContext } from 'node:vm'
import { build } from 'esbuild'
import { browser, worker } from './bundled.js'

/** The result of a program that uses the loaded module. */
async function resultOf(context: Context): Promise<unknown> {
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
      const pace = new RateLimiter(gcra({ limit: 4, period: '1s', burst: 1 }))
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
const EXPECTED = [['allowed', 'allowed-last', 'refused'], 2_800_000, true, true, 'INVALID_KEY']

test('browsers and Deno need nothing but the bundle', async () => {
  const { context, imported } = await browser()
  // A bundle that does not use Redis leaves the Redis code out.
  expect(imported).toEqual(['generated/wasm/engine.js', 'generated/wasm/inlined.js'])
  expect(await resultOf(context)).toEqual(EXPECTED)
})

test.each(['esm', 'cjs'] as const)('Node.js runs a bundle in the form %s', async (format) => {
  const contents = `
    import { gcra, RateLimiter, RedisStore } from 'tollgate/wasm'
    const limiter = new RateLimiter(gcra({ limit: 1, period: '1h' }))
    const store = RedisStore.from(async () => 'PONG')
    limiter.take('a').then(({ status }) => console.log(status, store.pending))
  `
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: __dirname },
    bundle: true,
    write: false,
    format,
    platform: 'node',
  })
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bundle-'))
  try {
    // No package can be resolved from there.
    const file = join(folder, format === 'esm' ? 'program.mjs' : 'program.cjs')
    writeFileSync(file, outputFiles[0]?.text ?? '')
    expect(execFileSync(process.execPath, [file], { encoding: 'utf8' })).toBe('allowed-last 0\n')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

describe('on workerd', () => {
  test('the engine is imported, and nothing is compiled', async () => {
    const { context, handling, imported } = await worker()
    expect(imported).toEqual(['compiled:tollgate.wasm', 'generated/wasm/engine.js'])
    handling.isRequest = true
    expect(await resultOf(context)).toEqual(EXPECTED)
  })

  test('limiters can be made while a Worker is loaded, and called during a request', async () => {
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
      message: 'the platform has no random numbers now: call while a request is handled',
    })
    handling.isRequest = true
    const { status } = await runInContext("limiter.take('a')", context)
    expect(status).toBe('allowed-last')
  })
})
